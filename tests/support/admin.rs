//! One command to a server without any client library in between.
//!
//! A library first greets the server (HELLO, CLIENT SETINFO) and may ping it. This module sends the one command and
//! nothing else, so that counts of commands are exact.

use std::io;
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The address of a server for commands, and the password of its default user.
#[derive(Debug)]
pub struct Admin<'a> {
    /// The server's unix socket.
    pub socket: &'a Path,
    /// The password for AUTH before the command, if there is one.
    pub password: Option<&'a str>,
}

impl Admin<'_> {
    /// Sends `command` (words without spaces in them) on a new connection. Returns the response as text.
    ///
    /// An array, including nested ones, has one line for each element. An error response is an `Err`.
    pub async fn call(&self, command: &str) -> io::Result<String> {
        let mut stream = BufReader::new(UnixStream::connect(self.socket).await?);
        if let Some(password) = self.password {
            exchange(&mut stream, &format!("AUTH {password}")).await?;
        }
        exchange(&mut stream, command).await
    }
}

async fn exchange(stream: &mut BufReader<UnixStream>, command: &str) -> io::Result<String> {
    let request = format!("{command}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let mut awaited = 1;
    while awaited > 0 {
        awaited -= 1;
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("+" | ":", rest)) => answer.push(rest.to_owned()),
            Some(("$" | "*", "-1")) => answer.push(String::new()),
            Some(("$", length)) => answer.push(bulk(stream, length).await?),
            Some(("*", count)) => awaited += count.parse::<usize>().map_err(io::Error::other)?,
            _ => return Err(io::Error::other(format!("{command}: {line}"))),
        }
    }
    Ok(answer.join("\n"))
}

async fn bulk(stream: &mut BufReader<UnixStream>, length: &str) -> io::Result<String> {
    let length: usize = length.parse().map_err(io::Error::other)?;
    let mut text = vec![0; length + 2];
    stream.read_exact(&mut text).await?;
    text.truncate(length);
    String::from_utf8(text).map_err(io::Error::other)
}

/// Returns whether a connection was closed before any response.
pub fn was_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

//! As much of an HTTP client as the tests of a service need.

use crate::support::{DEADLINE, within};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The answer to one request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The header of this name, which is given in small letters, as hyper sends it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(its, _)| *its == name);
        found.next().map(|(_, value)| value)
    }
}

/// Sends a POST without a body on a connection of its own, and waits for the answer.
pub(crate) async fn post(address: &str, path: &str) -> Answer {
    let exchange = within(DEADLINE, "an answer", exchange(address, path));
    let text = exchange.await.expect("an answer");
    parse(&text).unwrap_or_else(|| panic!("no answer, but {text:?}"))
}

async fn exchange(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    // The server closes the connection, since it was asked to.
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

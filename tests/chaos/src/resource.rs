//! The protected resource: it is outside Redis and rejects stale tokens, as a database would.
//!
//! It is in the harness, on a unix socket. A write, or a read, is accepted if no greater token has written to its key.
//! The decision and the record are one step, so the log has the order of the writes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::ledger::Answer;

/// One write, or one read, of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) reads: bool,
    pub(crate) key: String,
    pub(crate) token: u64,
    /// The hold and the operation from which it came.
    pub(crate) writer: String,
    pub(crate) answer: Answer,
}

#[derive(Debug, Default)]
struct State {
    greatest: HashMap<String, u64>,
    log: Vec<Write>,
}

/// The running resource. It ends on drop.
#[derive(Debug)]
pub(crate) struct Resource {
    state: Arc<Mutex<State>>,
    listening: JoinHandle<()>,
}

impl Resource {
    pub(crate) fn start(socket: &Path) -> Result<Resource> {
        let listener = UnixListener::bind(socket)?;
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // The write of a client that disconnects before its response still counts.
                tokio::spawn(serve(client, Arc::clone(&shared)));
            }
        });
        Ok(Resource { state, listening })
    }

    /// Every write and read so far, in order.
    pub(crate) fn log(&self) -> Vec<Write> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.log.clone()
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(client: UnixStream, state: Arc<Mutex<State>>) -> Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    client.read_line(&mut line).await?;
    let mut words = line.split_whitespace();
    let mut word = || words.next().context("verb, key, token, writer");
    let reads = word()? == "read";
    let (key, token, writer) = (word()?.to_owned(), word()?.parse()?, word()?.to_owned());
    let answer = decide(&state, reads, key, token, writer);
    let word: &[u8] = match answer {
        Answer::Accepted => b"accepted\n",
        Answer::Refused => b"refused\n",
    };
    Ok(client.write_all(word).await?)
}

fn decide(state: &Mutex<State>, reads: bool, key: String, token: u64, writer: String) -> Answer {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let greatest = state.greatest.entry(key.clone()).or_default();
    let answer = if token < *greatest {
        Answer::Refused
    } else {
        if !reads {
            *greatest = token;
        }
        Answer::Accepted
    };
    state.log.push(Write {
        reads,
        key,
        token,
        writer,
        answer,
    });
    answer
}

/// The access of a worker to the resource.
#[derive(Clone, Debug)]
pub(crate) struct Access(pub(crate) PathBuf);

impl Access {
    /// Writes on a separate connection, so that a caller may be dropped at any point.
    pub(crate) async fn write(&self, key: &str, token: u64, writer: &str) -> Result<Answer> {
        self.ask("write", key, token, writer).await
    }

    /// Reads with a token.
    pub(crate) async fn read(&self, key: &str, token: u64, reader: &str) -> Result<Answer> {
        self.ask("read", key, token, reader).await
    }

    async fn ask(&self, verb: &str, key: &str, token: u64, writer: &str) -> Result<Answer> {
        let mut server = BufReader::new(UnixStream::connect(&self.0).await?);
        let line = format!("{verb} {key} {token} {writer}\n");
        server.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        server.read_line(&mut answer).await?;
        match answer.trim_end() {
            "accepted" => Ok(Answer::Accepted),
            "refused" => Ok(Answer::Refused),
            _ => anyhow::bail!("the resource has ended"),
        }
    }
}

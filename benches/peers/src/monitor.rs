//! The commands that clients send to the server, separated from those that scripts call.
//!
//! `INFO commandstats` does not separate them, but MONITOR does. It slows the server down, so no times are measured
//! while it runs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};

use crate::server::Server;

/// The commands that every client sends when it connects, and those with which this program examines the server.
const LEFT_OUT: [&str; 8] = [
    "client", "command", "echo", "hello", "info", "pubsub", "script", "select",
];

/// Calls by command, in lower case.
pub(crate) type Calls = BTreeMap<String, u64>;

/// The calls while a monitor ran.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Sent by clients.
    pub(crate) top: Calls,
    /// Called by scripts.
    pub(crate) scripted: Calls,
}

impl Tally {
    /// The number of commands that clients sent.
    pub(crate) fn sent(&self) -> f64 {
        self.top.values().sum::<u64>() as f64
    }

    /// The number of commands that scripts called.
    pub(crate) fn called(&self) -> f64 {
        self.scripted.values().sum::<u64>() as f64
    }

    /// The number of messages that clients or scripts published.
    pub(crate) fn published(&self) -> f64 {
        let calls = [&self.top, &self.scripted];
        let names = ["publish", "spublish"];
        let found = calls
            .iter()
            .flat_map(|calls| names.iter().filter_map(|name| calls.get(*name)));
        found.sum::<u64>() as f64
    }

    /// The part of all calls of `command` that clients sent.
    pub(crate) fn share(&self, command: &str) -> f64 {
        let count = |calls: &Calls| calls.get(command).copied().unwrap_or(0) as f64;
        let all = count(&self.top) + count(&self.scripted);
        if all == 0.0 {
            0.0
        } else {
            count(&self.top) / all
        }
    }

    fn count(&mut self, line: &str, filter: Option<&str>) -> Option<()> {
        let (source, words) = line.split_once("] \"")?;
        let command = words.split('"').next()?.to_lowercase();
        let wanted = filter.is_none_or(|part| words.contains(part));
        if wanted && !LEFT_OUT.contains(&command.as_str()) {
            let calls = match source.ends_with(" lua") {
                true => &mut self.scripted,
                false => &mut self.top,
            };
            *calls.entry(command).or_default() += 1;
        }
        Some(())
    }
}

/// Counts until the result is requested.
#[derive(Debug)]
pub(crate) struct Monitor {
    port: u16,
    end: String,
    reader: JoinHandle<Result<Tally>>,
}

impl Monitor {
    pub(crate) fn start(server: &Server) -> Result<Monitor> {
        Monitor::start_with(server, None)
    }

    /// Counts only commands with `part` in one of their words.
    pub(crate) fn start_for(server: &Server, part: &str) -> Result<Monitor> {
        Monitor::start_with(server, Some(part.to_owned()))
    }

    fn start_with(server: &Server, filter: Option<String>) -> Result<Monitor> {
        let port = server.port();
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(stream).lines();
        let welcome = lines.next().context("MONITOR has no answer")??;
        ensure!(welcome == "+OK", "MONITOR: {welcome}");
        let end = format!("end-of-{:?}", std::time::Instant::now()).replace([' ', '"'], "");
        let marker = end.clone();
        let reader = std::thread::spawn(move || {
            let mut tally = Tally::default();
            for line in lines {
                let line = line?;
                if line.contains(&marker) {
                    return Ok(tally);
                }
                tally.count(&line, filter.as_deref());
            }
            Err(anyhow!("the server ended MONITOR"))
        });
        Ok(Monitor { port, end, reader })
    }

    /// The calls so far.
    pub(crate) fn finish(self) -> Result<Tally> {
        // All commands that were executed earlier are before this marker.
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("ECHO {}\r\n", self.end).as_bytes())?;
        let tally = self.reader.join();
        tally.map_err(|_| anyhow!("the reader of MONITOR panicked"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_are_told_apart() {
        let mut tally = Tally::default();
        for line in [
            r#"1.5 [0 127.0.0.1:60866] "EVALSHA" "abc" "1" "k" "\"quoted\" ] \"set\"" "#,
            r#"1.5 [0 lua] "pexpire" "k" "30000""#,
            r#"1.5 [0 lua] "publish" "c" "0""#,
            r#"1.5 [0 127.0.0.1:60866] "INFO" "commandstats""#,
            r#"1.5 [0 unix:/tmp/s] "publish" "c" "0""#,
        ] {
            tally.count(line, None);
        }
        assert_eq!(tally.sent(), 2.0);
        assert_eq!(tally.called(), 2.0);
        assert_eq!(tally.published(), 2.0);
        assert_eq!(tally.share("publish"), 0.5);
    }

    #[test]
    fn a_filter_looks_at_the_words() {
        let mut tally = Tally::default();
        tally.count(r#"1.5 [0 127.0.0.1:1] "get" "mine""#, Some("mine\""));
        tally.count(r#"1.5 [0 127.0.0.1:1] "get" "mine-too""#, Some("mine\""));
        assert_eq!(tally.sent(), 1.0);
    }
}

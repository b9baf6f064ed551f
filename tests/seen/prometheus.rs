//! A Prometheus of the test's own, and its tool `promtool`.

use std::fs;
use std::net::TcpListener as Port;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::process::Process;

/// What installs it.
const INSTALL: &str = "`cargo xtask test` installs it, as does `apt-get install prometheus` or `brew install prometheus`";

/// It dies with the test.
pub(crate) struct Prometheus {
    address: String,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Scrapes this address once in a second.
    pub(crate) fn scraping(target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: orders\n    static_configs:\n      - targets: ['{target}']\n"
        );
        fs::write(&config, text).expect("a configuration");
        let address = free();
        let data = folder.path().join("data");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process::spawn(&mut command, Some(folder.path()));
        Self {
            address,
            _process: process.unwrap_or_else(|error| panic!("no prometheus ({error}): {INSTALL}")),
            _folder: folder,
        }
    }

    /// The result of an expression, as soon as it answers.
    pub(crate) async fn query(&self, expression: &str) -> Option<Value> {
        let encoded: String = expression
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect();
        let mut stream = TcpStream::connect(&self.address).await.ok()?;
        let request = format!(
            "GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: {}\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let mut body: Value = serde_json::from_str(body).ok()?;
        Some(body["data"]["result"].take())
    }
}

/// What `promtool` says.
pub(crate) fn promtool(args: &[&str], file: &Path) -> Output {
    let output = Command::new("promtool").args(args).arg(file).output();
    output.unwrap_or_else(|error| panic!("no promtool ({error}): {INSTALL}"))
}

/// An address on which nothing listens.
fn free() -> String {
    let port = Port::bind("127.0.0.1:0").expect("a port");
    port.local_addr().expect("its address").to_string()
}

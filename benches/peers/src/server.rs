//! A separate redis-server, and its statistics.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use redis::aio::MultiplexedConnection;
use redis::{Client, cmd};
use tempfile::TempDir;

/// A server without persistence. It ends with this process, even if that is killed.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    tether: Child,
    port: u16,
    _dir: TempDir,
}

/// A shell that waits for the end of this process and then ends the server and removes its folder.
const TETHER: &str = r#"trap "" INT TERM HUP; read -r _; kill -9 "$0"; rm -rf -- "$1""#;

impl Server {
    pub(crate) async fn start() -> Result<Server> {
        let dir = TempDir::with_prefix("reentry-peers-")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("redis-server does not start; is it installed?")?;
        let tether = Command::new("sh")
            .args(["-c", TETHER, &process.id().to_string()])
            .arg(dir.path())
            .stdin(Stdio::piped())
            .spawn()?;
        let server = Server {
            process,
            tether,
            port,
            _dir: dir,
        };
        for _ in 0..500 {
            if server.ask::<String>(&["PING"]).await.is_ok() {
                return Ok(server);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(anyhow!("redis-server does not answer"))
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The response to one command, on a new connection.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> Result<T> {
        let (name, args) = words.split_first().context("a command has a name")?;
        let mut connection = self.connection().await?;
        Ok(cmd(name).arg(args).query_async(&mut connection).await?)
    }

    /// The time that each command has taken inside the server since its start, in µs.
    ///
    /// A command that a script called counts separately, and also in the time of the script.
    pub(crate) async fn time_by_command(&self) -> Result<BTreeMap<String, f64>> {
        let info: String = self.ask(&["INFO", "commandstats"]).await?;
        Ok(info.lines().filter_map(time_of_line).collect())
    }

    /// The number of calls of a command since the start of the server.
    pub(crate) async fn calls_of(&self, command: &str) -> Result<u64> {
        let info: String = self.ask(&["INFO", "commandstats"]).await?;
        let head = format!("cmdstat_{command}:calls=");
        let calls = info.lines().find_map(|line| line.strip_prefix(&*head));
        let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
        Ok(calls.unwrap_or(0))
    }

    /// The CPU time of the server's main thread since its start, in µs.
    pub(crate) async fn cpu_time(&self) -> Result<f64> {
        let info: String = self.ask(&["INFO", "cpu"]).await?;
        let field = |name: &str| {
            let text = info.lines().find_map(|line| line.strip_prefix(name));
            text.and_then(|text| text.trim().parse::<f64>().ok())
                .with_context(|| format!("no {name} in INFO cpu"))
        };
        let seconds = field("used_cpu_user_main_thread:")? + field("used_cpu_sys_main_thread:")?;
        Ok(seconds * 1e6)
    }

    async fn connection(&self) -> Result<MultiplexedConnection> {
        let client = Client::open(self.url())?;
        Ok(client.get_multiplexed_async_connection().await?)
    }
}

fn time_of_line(line: &str) -> Option<(String, f64)> {
    let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let time = figures.split(',').find_map(|f| f.strip_prefix("usec="))?;
    Some((command.to_owned(), time.parse().ok()?))
}

impl Drop for Server {
    fn drop(&mut self) {
        // The tether is ended first: once the process is reaped, its ID may belong to another process.
        for process in [&mut self.tether, &mut self.process] {
            // A process that has already ended needs no signal.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

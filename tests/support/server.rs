//! A real `redis-server` that belongs to one test.

use super::admin::{self, Admin};
use super::config;
use super::ports::Port;
use super::process::Process;
use super::program::program;
use super::stats::{self, Calls};
use super::wait::{DEADLINE, eventually};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::timeout;

/// The log file in the server's folder.
const LOG: &str = "redis.log";

/// The time limit for a request to a server that may be down.
const SOON: Duration = Duration::from_secs(2);

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server with data, alone, or as a primary or a replica.
    Data,
    /// A node of a cluster. It has some slots, and listens on a second port for the other nodes.
    ClusterNode,
    /// A sentinel. It watches primaries and replicas.
    Sentinel,
}

/// A `redis-server` on a port and in a folder of its own, without persistence.
///
/// Its options are in a file in that folder. What the server itself writes there (CONFIG REWRITE, and the state of a
/// sentinel) survives restarts.
///
/// It is killed on drop and when the test process ends, and its folder is removed. The support itself connects to it
/// over a unix socket, so that the TCP connections are only those of the test.
#[derive(Debug)]
pub struct RedisServer {
    // Fields drop in this order: the process must be gone before its port and its folder.
    process: Mutex<Option<Process>>,
    paused: AtomicBool,
    port: Port,
    dir: TempDir,
    kind: Kind,
    password: Option<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

/// The reason why a server did not start.
enum NotUp {
    AddressInUse,
    Other(String),
}

impl RedisServer {
    /// Starts a server and waits until it responds.
    ///
    /// # Panics
    ///
    /// Panics with the command that installs it if the machine has no `redis-server`.
    pub async fn start() -> RedisServer {
        RedisServer::start_with(&[]).await
    }

    /// Starts a server with further options, as on the command line: `&["--maxmemory", "2mb"]`.
    ///
    /// [`url`](Self::url) and everything else here use the password of a `--requirepass`.
    pub async fn start_with(config: &[&str]) -> RedisServer {
        RedisServer::start_as(Kind::Data, config).await
    }

    /// Starts a server of this kind with further options.
    pub(super) async fn start_as(kind: Kind, config: &[&str]) -> RedisServer {
        let dir = TempDir::with_prefix("reentry-").expect("a temporary folder");
        RedisServer::launch(dir, kind, plain, config, Vec::new()).await
    }

    /// Starts a server in `dir` with these variables in its environment, and without further options.
    pub(super) async fn start_within(
        dir: TempDir,
        environment: Vec<(&'static str, PathBuf)>,
    ) -> RedisServer {
        RedisServer::launch(dir, Kind::Data, plain, &[], environment).await
    }

    /// Starts a server in `dir` whose listening options depend on the port.
    pub(super) async fn launch(
        dir: TempDir,
        kind: Kind,
        listen: impl Fn(u16) -> Vec<String>,
        config: &[&str],
        environment: Vec<(&'static str, PathBuf)>,
    ) -> RedisServer {
        let reserve = match kind {
            Kind::Data | Kind::Sentinel => Port::reserve,
            Kind::ClusterNode => Port::reserve_with_bus,
        };
        let password = config.windows(2).find(|pair| pair[0] == "--requirepass");
        let mut server = RedisServer {
            process: Mutex::new(None),
            paused: AtomicBool::new(false),
            port: reserve(),
            kind,
            password: password.map(|pair| pair[1].to_owned()),
            environment,
            dir,
        };
        for _ in 0..10 {
            server.write_config(&listen(server.port.number), config);
            match server.run().await {
                Ok(()) => return server,
                Err(NotUp::AddressInUse) => server.port = reserve(),
                Err(NotUp::Other(why)) => panic!("redis-server does not come up: {why}"),
            }
        }
        panic!("redis-server found ten addresses in use");
    }

    /// `redis://127.0.0.1:PORT`, with the password if there is one.
    pub fn url(&self) -> String {
        let user = self.password.as_ref().map(|word| format!(":{word}@"));
        format!(
            "redis://{}127.0.0.1:{}",
            user.unwrap_or_default(),
            self.port()
        )
    }

    /// The port on 127.0.0.1. It does not change when the server is restarted.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The server's own folder, with `redis.log`, and `dump.rdb` after a SAVE.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The log since the last start.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir().join(LOG)).unwrap_or_default()
    }

    /// Kills the server (SIGKILL). Unsaved data is lost; the port stays reserved.
    pub fn stop(&self) {
        self.process().take();
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Makes the server end without saving, and waits for its end.
    ///
    /// Since Redis 7.0 a primary first waits, for up to ten seconds, until its replicas have its data.
    pub async fn shut_down(&self) {
        // The response is the end of the connection.
        let _ = self.call("SHUTDOWN NOSAVE", DEADLINE).await;
        let ended = async || !self.is_running();
        eventually(DEADLINE, "the server shuts down", ended).await;
        self.stop();
    }

    /// Returns whether the server can respond: it was started, has not ended and is not paused.
    pub fn is_running(&self) -> bool {
        let mut process = self.process();
        let has_ended = |process: &mut Process| process.ended().is_some();
        let is_there = process.as_mut().is_some_and(|process| !has_ended(process));
        is_there && !self.paused.load(Ordering::Relaxed)
    }

    /// Starts the server again after [`stop`](Self::stop), with the data in its folder.
    pub async fn start_again(&self) {
        assert!(self.process().is_none(), "the server is running");
        let end = Instant::now() + DEADLINE;
        loop {
            match self.run().await {
                Ok(()) => return,
                Err(NotUp::AddressInUse) if Instant::now() < end => {}
                Err(NotUp::AddressInUse) => panic!("port {} was taken", self.port()),
                Err(NotUp::Other(why)) => panic!("redis-server does not come up: {why}"),
            }
        }
    }

    /// Kills the server and starts it again on the same port without any data.
    pub async fn restart_empty(&self) {
        self.stop();
        for leftover in ["dump.rdb", "appendonlydir", "appendonly.aof"] {
            let path = self.dir().join(leftover);
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            assert!(removed.is_ok() || !path.exists(), "cannot remove {path:?}");
        }
        self.start_again().await;
    }

    /// Makes all snapshots fail, as with a full disk. From then on the server rejects every write (MISCONF).
    pub async fn fill_disk(&self) {
        let mut connection = self.connection().await;
        // The finished file cannot replace a folder of this name.
        fs::create_dir_all(self.dir().join("dump.rdb")).expect("a folder");
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("save").arg("3600 1");
        let () = set.query_async(&mut connection).await.expect("CONFIG SET");
        self.ask("BGSAVE").await;
        let failed = async || {
            let state = self.ask("INFO persistence").await;
            state.contains("rdb_last_bgsave_status:err")
        };
        eventually(DEADLINE, "the snapshot fails", failed).await;
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    /// The kernel's state of the process, for messages.
    pub fn state(&self) -> Option<String> {
        self.process().as_ref()?.state()
    }

    /// Sends SIGSTOP: connections stay open, and no request is answered.
    pub fn pause(&self) {
        self.process().as_ref().expect("a running server").pause();
        self.paused.store(true, Ordering::Relaxed);
    }

    /// Sends SIGCONT: everything that arrived in the meantime is executed now.
    pub fn resume(&self) {
        self.process().as_ref().expect("a running server").resume();
        self.paused.store(false, Ordering::Relaxed);
    }

    /// A connection for the test itself, over the unix socket, past any proxy.
    ///
    /// It belongs to the runtime that opened it. Its commands are counted like any others.
    pub async fn connection(&self) -> MultiplexedConnection {
        let socket = self.socket();
        let mut url = format!("redis+unix://{}", socket.display());
        if let Some(password) = &self.password {
            url = format!("{url}?pass={password}");
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(DEADLINE))
            .set_response_timeout(Some(DEADLINE));
        let client = Client::open(url).expect("a valid url");
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("a connection to the test's own server")
    }

    /// Calls by command since the start or the last [`reset_stats`](Self::reset_stats).
    pub async fn commandstats(&self) -> Calls {
        stats::parse(&self.ask("INFO commandstats").await)
    }

    /// Starts counting from nothing.
    pub async fn reset_stats(&self) {
        self.ask("CONFIG RESETSTAT").await;
    }

    /// The calls since `before`, without the commands of this support (see `stats`).
    pub async fn calls_since(&self, before: &Calls) -> Calls {
        stats::difference(before, &self.commandstats().await)
    }

    /// The number of times that it has executed a command since `before`.
    pub async fn count_since(&self, before: &Calls, command: &str) -> u64 {
        let calls = self.calls_since(before).await;
        calls.get(command).copied().unwrap_or_default()
    }

    /// Sends one command without spaces in its words, without a client library; see [`Admin::call`]. If a connection is
    /// closed without a response, for example by CLIENT KILL, it is replaced.
    ///
    /// # Panics
    ///
    /// Panics if the server responds with an error, or does not respond within the deadline.
    pub async fn ask(&self, command: &str) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.call(command, DEADLINE).await {
                Ok(answer) => return answer,
                Err(error) if admin::was_closed(&error) && Instant::now() < end => {}
                Err(error) => panic!("{command}: {error}"),
            }
        }
    }

    /// Sends one command to a server that may be down or busy. If there is no response within two seconds, that is an
    /// error too.
    pub async fn try_ask(&self, command: &str) -> io::Result<String> {
        self.call(command, SOON).await
    }

    async fn call(&self, command: &str, limit: Duration) -> io::Result<String> {
        let socket = self.socket();
        let password = self.password.as_deref();
        let admin = Admin {
            socket: &socket,
            password,
        };
        let answer = timeout(limit, admin.call(command)).await;
        answer.unwrap_or_else(|_| Err(io::Error::other(format!("no response within {limit:?}"))))
    }

    /// Starts the process once. The server is ready when it responds to a PING.
    async fn run(&self) -> Result<(), NotUp> {
        *self.process() = Some(self.spawn());
        let end = Instant::now() + DEADLINE;
        // The unix socket is opened after the TCP port, so a response there means that both are open.
        loop {
            let ended = self.process().as_mut().and_then(Process::ended);
            if let Some(status) = ended {
                self.process().take();
                let text = self.log();
                return Err(if text.contains("Address already in use") {
                    NotUp::AddressInUse
                } else {
                    NotUp::Other(format!("{status}; it said:\n{text}"))
                });
            }
            if self.try_ask("PING").await.is_ok_and(|pong| pong == "PONG") {
                return Ok(());
            }
            if Instant::now() > end {
                let text = self.log();
                return Err(NotUp::Other(format!("no answer; it said:\n{text}")));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn spawn(&self) -> Process {
        let output = File::create(self.dir().join(LOG)).expect("a log file");
        let errors = output.try_clone().expect("the same log file");
        let mut command = Command::new(program());
        command.arg(self.config());
        if self.kind == Kind::Sentinel {
            command.arg("--sentinel");
        }
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        Process::spawn(&mut command, Some(self.dir())).expect("redis-server to start")
    }

    /// Writes the configuration file of the server.
    fn write_config(&self, listen: &[String], further: &[&str]) {
        let text = config::text(self.dir(), &self.socket(), listen, further);
        fs::write(self.config(), text).expect("a configuration file");
    }

    fn config(&self) -> PathBuf {
        self.dir().join("redis.conf")
    }

    /// The socket on which the server listens in addition to its port.
    pub fn socket(&self) -> PathBuf {
        self.dir().join("redis.sock")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The listening options of a server, unless it has others.
fn plain(port: u16) -> Vec<String> {
    vec!["--port".to_owned(), port.to_string()]
}

//! A `redis-server` whose clock can be stepped.

use super::server::RedisServer;
use super::wait::{DEADLINE, eventually};
use redis::cmd;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The permitted distance of the server's clock from its setting, on a busy machine.
const NEAR: Duration = Duration::from_secs(5);

/// A server under libfaketime: its wall clock is the machine's clock plus an offset. Its monotonic
/// clock is unchanged.
///
/// libfaketime does not work with jemalloc, which most builds of the server use.
#[derive(Debug)]
pub struct SteppedServer {
    /// The server. Everything except its clock is as usual.
    pub server: RedisServer,
    /// The offset in milliseconds.
    moved: Mutex<i64>,
}

impl SteppedServer {
    /// Starts a server with the clock of this machine.
    ///
    /// # Panics
    ///
    /// Panics with the command that runs such tests if `REENTRY_FAKETIME` does not name a libfaketime.
    pub async fn start() -> SteppedServer {
        let library = std::env::var_os("REENTRY_FAKETIME").map(PathBuf::from);
        let library = library.expect("REENTRY_FAKETIME; run `cargo xtask servers redis-6.2`");
        assert!(library.is_file(), "REENTRY_FAKETIME: no file {library:?}");
        let dir = TempDir::with_prefix("reentry-clock-").expect("a temporary folder");
        set(dir.path(), 0);
        let environment = vec![
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", file(dir.path())),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ];
        SteppedServer {
            server: RedisServer::start_within(dir, environment).await,
            moved: Mutex::new(0),
        }
    }

    /// Sets the clock forward by this time.
    pub async fn step_forward(&self, by: Duration) {
        self.step(by.as_millis() as i64).await;
    }

    /// Sets the clock back by this time.
    pub async fn step_back(&self, by: Duration) {
        self.step(-(by.as_millis() as i64)).await;
    }

    /// Returns when the server's own `TIME` shows the new time.
    async fn step(&self, millis: i64) {
        let moved = {
            let mut moved = self.moved.lock().expect("a clock");
            *moved += millis;
            set(self.server.dir(), *moved);
            *moved
        };
        let mut connection = self.server.connection().await;
        let shown = async || {
            let time = cmd("TIME").query_async(&mut connection).await;
            let (seconds, _): (i64, u64) = time.expect("the time");
            let true_time = SystemTime::now().duration_since(UNIX_EPOCH);
            let true_time = true_time.expect("a clock after 1970").as_secs() as i64;
            let off = true_time + moved / 1000 - seconds;
            off.unsigned_abs() <= NEAR.as_secs()
        };
        eventually(DEADLINE, "the server's clock is stepped", shown).await;
    }
}

impl Drop for SteppedServer {
    /// Removes the files that libfaketime leaves when its process is killed.
    fn drop(&mut self) {
        let pid = self.server.pid();
        self.server.stop();
        if let Some(pid) = pid {
            for name in ["sem.faketime_sem", "faketime_shm"] {
                // Some versions leave no file.
                let _ = fs::remove_file(format!("/dev/shm/{name}_{pid}"));
            }
        }
    }
}

/// The file from which libfaketime reads the time.
fn file(dir: &Path) -> PathBuf {
    dir.join("faketime")
}

/// Writes the offset in one step: the server may read at any moment.
fn set(dir: &Path, millis: i64) {
    let fresh = dir.join("faketime.next");
    let sign = if millis < 0 { '-' } else { '+' };
    let (seconds, rest) = (millis.unsigned_abs() / 1000, millis.unsigned_abs() % 1000);
    fs::write(&fresh, format!("{sign}{seconds}.{rest:03}")).expect("the time");
    fs::rename(fresh, file(dir)).expect("the time");
}

//! A server, a proxy in front of it, and `Locks` that go through the proxy.

use super::proxy::{Action, Cut, Proxy};
use super::server::RedisServer;
use super::stores::patient_at;
use super::wait::{DEADLINE, eventually};
use redis::{AsyncCommands, cmd};
use reentry::__admin::scripts;
use reentry::{Locks, LocksBuilder};
use std::collections::BTreeMap;
use std::time::Duration;

/// The key of a rig.
pub const KEY: &str = "order:42";

/// The silence after which the crate considers a server unavailable, in all tests on a rig.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(300);

/// The bytes that identify a request in the proxy.
pub const EVALSHA: &[u8] = b"EVALSHA";

/// Every way in which one request can go wrong and still end.
pub const FAULTS: [Action; 7] = [
    // Cut before the server has it.
    Action::CutInstead(Cut::Fin),
    Action::CutInstead(Cut::Reset),
    // Cut after it was executed: the response is lost.
    Action::CutAtAnswer(Cut::Fin),
    Action::CutAtAnswer(Cut::Reset),
    // Cut while it is in flight.
    Action::CutClientAfter(Cut::Fin),
    Action::CutClientAfter(Cut::Reset),
    Action::Twice,
];

/// The setup of a fault test.
#[derive(Debug)]
pub struct Rig {
    /// Locks whose requests pass through the proxy. Their leases are one minute long, much longer than a test.
    pub locks: Locks,
    /// The proxy.
    pub proxy: Proxy,
    /// The server behind it.
    pub server: RedisServer,
}

impl Rig {
    /// Starts all three, with leases that no test outlives.
    pub async fn start() -> Rig {
        Rig::with_ttl(Duration::from_secs(60)).await
    }

    /// Starts all three, with leases of this length.
    pub async fn with_ttl(ttl: Duration) -> Rig {
        Rig::build(|builder| builder.ttl(ttl)).await
    }

    /// Starts all three, with options.
    pub async fn build(options: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Rig {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let builder = patient_at(proxy.url())
            .wait(DEADLINE)
            .response_timeout(RESPONSE_TIMEOUT);
        let locks = options(builder).build().await.expect("locks");
        let rig = Rig {
            locks,
            proxy,
            server,
        };
        rig.load_scripts().await;
        rig
    }

    /// Loads every script into the server, so that each operation is one EVALSHA.
    pub async fn load_scripts(&self) {
        let mut connection = self.server.connection().await;
        for (_verb, script) in scripts() {
            let mut load = cmd("SCRIPT");
            load.arg("LOAD").arg(script);
            let _: String = load.query_async(&mut connection).await.expect("a script");
        }
    }

    /// The fields and depths of the lock on the server, read past the proxy.
    pub async fn hash(&self) -> BTreeMap<String, u64> {
        let mut connection = self.server.connection().await;
        let fields: BTreeMap<String, String> = connection.hgetall(KEY).await.expect("the lock");
        let depths = fields.into_iter().filter(|(field, _)| field != "mode");
        depths
            .map(|(field, depth)| (field, depth.parse().expect("a depth")))
            .collect()
    }

    /// The depth on the server; 0 for a free lock.
    pub async fn depth(&self) -> u64 {
        self.hash().await.into_values().sum()
    }

    /// The remaining lease on the server, in milliseconds as from PTTL.
    pub async fn pttl(&self) -> i64 {
        let mut connection = self.server.connection().await;
        connection.pttl(KEY).await.expect("the lease")
    }

    /// The number of scripts that the server has executed.
    pub async fn executed(&self) -> u64 {
        let calls = self.server.commandstats().await;
        let count = |command: &str| calls.get(command).copied().unwrap_or(0);
        count("evalsha") + count("eval")
    }

    /// Waits until the server has executed `more` scripts than `before`.
    pub async fn until_executed(&self, before: u64, more: u64) {
        let executed = async || self.executed().await >= before + more;
        eventually(DEADLINE, "the request is executed", executed).await;
    }

    /// Waits until the lock is free on the server.
    pub async fn until_free(&self) {
        let free = async || self.depth().await == 0;
        eventually(DEADLINE, "the lock is free", free).await;
    }

    /// Waits until the depth on the server has this value.
    pub async fn until_depth(&self, depth: u64) {
        let reached = async || self.depth().await == depth;
        eventually(DEADLINE, &format!("the depth is {depth}"), reached).await;
    }

    /// Cuts every connection, with the streams as they are.
    pub async fn cut(&self) {
        self.proxy.cut_all(Cut::Reset).await;
    }
}

//! A server in memory and a real one that are unavailable for a while, and two replicas of a service on each of them.

use std::time::Duration;

use futures_util::future::join_all;
use reentry::testing::Server;
use reentry::{Locks, LocksBuilder};

use crate::support::stores::patient_at;
use crate::support::{Cut, DEADLINE, Proxy, RedisServer, within};

use Servers::{InMemory, OnRedis};

/// The way in which the server is unavailable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Trouble {
    /// It is stopped, and returns with its data.
    Down,
    /// It executes nothing until it continues.
    Silent,
    /// Only the first replica cannot reach it.
    CutOff,
}

enum Servers {
    InMemory(Server),
    /// With a proxy, in front of the first replica.
    OnRedis(Box<RedisServer>, Proxy),
}

/// The environment of a case.
pub(super) struct Ground {
    servers: Servers,
    pub(super) trouble: Trouble,
}

/// Runs the case once for each trouble, on the server in memory.
pub(super) async fn in_memory<const N: usize>(case: impl AsyncFn(Ground), troubles: [Trouble; N]) {
    for trouble in troubles {
        let servers = InMemory(Server::new());
        case(Ground { servers, trouble }).await;
    }
}

/// Runs the case once for each trouble, in parallel, on separate servers.
pub(super) async fn on_redis<const N: usize>(case: impl AsyncFn(Ground), troubles: [Trouble; N]) {
    let each = troubles.map(async |trouble| {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let servers = OnRedis(Box::new(server), proxy);
        let case = case(Ground { servers, trouble });
        within(3 * DEADLINE, &format!("{trouble:?}"), case).await;
    });
    join_all(each).await;
}

impl Ground {
    /// Two replicas that have already acquired locks. The first one may be cut off.
    pub(super) async fn replicas(
        &self,
        options: impl Fn(LocksBuilder) -> LocksBuilder,
    ) -> [Locks; 2] {
        let builders = match &self.servers {
            InMemory(server) => [server.builder(), server.builder()],
            OnRedis(server, proxy) => [patient_at(proxy.url()), patient_at(server.url())],
        };
        let replicas = builders.map(|builder| options(builder).build_lazy().unwrap());
        for locks in &replicas {
            locks.with_lock("warm-up", async {}).await.unwrap();
        }
        replicas
    }

    pub(super) async fn begin(&self, cut_off: &Locks) {
        match (&self.servers, self.trouble) {
            (InMemory(server), Trouble::Down) => server.stop(),
            (InMemory(server), Trouble::Silent) => server.pause(),
            (InMemory(server), Trouble::CutOff) => server.partition(cut_off),
            (OnRedis(server, _), Trouble::Down) => {
                server.ask("SAVE").await;
                server.stop();
            }
            (OnRedis(server, _), Trouble::Silent) => server.pause(),
            (OnRedis(_, proxy), Trouble::CutOff) => proxy.blackhole(),
        }
    }

    pub(super) async fn end(&self, cut_off: &Locks) {
        match (&self.servers, self.trouble) {
            (InMemory(server), Trouble::Down) => server.start(),
            (InMemory(server), Trouble::Silent) => server.resume(),
            (InMemory(server), Trouble::CutOff) => server.heal(cut_off),
            (OnRedis(server, _), Trouble::Down) => server.start_again().await,
            (OnRedis(server, _), Trouble::Silent) => server.resume(),
            (OnRedis(_, proxy), Trouble::CutOff) => {
                proxy.heal().await;
                proxy.cut_all(Cut::Reset).await;
            }
        }
    }

    pub(super) async fn restart_empty(&self) {
        match &self.servers {
            InMemory(server) => {
                server.stop();
                server.lose_data();
                server.start();
            }
            OnRedis(server, _) => server.restart_empty().await,
        }
    }

    /// The name of the server in the errors.
    pub(super) fn endpoint(&self) -> String {
        match &self.servers {
            InMemory(_) => "the server in memory".to_owned(),
            OnRedis(_, proxy) => format!("127.0.0.1:{}", proxy.port()),
        }
    }

    /// # Panics
    ///
    /// Panics if this is not how long an operation took: in memory exactly, on Redis at least.
    pub(super) fn assert_took(&self, took: Duration, expected: Duration) {
        let is_right = match self.servers {
            InMemory(_) => took == expected,
            OnRedis(..) => took >= expected,
        };
        assert!(is_right, "{:?}: {took:?}, not {expected:?}", self.trouble);
    }

    /// # Panics
    ///
    /// Panics if an operation took longer in memory. On Redis only the deadlines of the test apply.
    pub(super) fn assert_within(&self, took: Duration, most: Duration) {
        let is_right = took <= most || matches!(self.servers, OnRedis(..));
        assert!(is_right, "{:?}: {took:?}, over {most:?}", self.trouble);
    }
}

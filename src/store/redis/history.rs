//! Which data a server has: what tells it from those that answer in its place before and after it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use deadpool_redis::redis::{aio::MultiplexedConnection, cmd};

use crate::base::timer::timeout;

/// What a server calls its data, its `master_replid`: another one after each failover and each restart. Two are equal if
/// they name the same.
#[derive(Clone, Debug)]
pub(super) struct History {
    id: Arc<str>,
    /// The most replicas that the server has had with it, also as others say: one that is missing may be promoted.
    replicas: Arc<AtomicU32>,
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// What a server says of itself and its replicas.
#[derive(Debug)]
pub(super) struct Replication {
    id: Arc<str>,
    replicas: u32,
}

impl History {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            replicas: Arc::default(),
        }
    }

    /// That of the server that answers; `None` if it does not say so, and if it is no primary, whose history it would
    /// name.
    pub(super) async fn of(driver: &MultiplexedConnection, limit: Duration) -> Option<Self> {
        let mut driver = driver.clone();
        let mut info = cmd("INFO");
        let info = timeout(
            limit,
            info.arg("replication").query_async::<String>(&mut driver),
        )
        .await;
        let replication = Replication::read(&info.ok()?.ok()?)?;
        let history = Self::new(Arc::clone(&replication.id));
        history.raise(replication.replicas);
        Some(history)
    }

    /// What it is called.
    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Whether it is the present one; then the replicas that it has now are counted.
    pub(super) fn goes_on(&self, now: &Replication) -> bool {
        let goes_on = self.id == now.id;
        if goes_on {
            self.raise(now.replicas);
        }
        goes_on
    }

    /// It has so many replicas, if not more.
    pub(super) fn raise(&self, replicas: u32) {
        self.replicas.fetch_max(replicas, Relaxed);
    }

    /// The most that it has had.
    pub(super) fn replicas(&self) -> u32 {
        self.replicas.load(Relaxed)
    }
}

impl Replication {
    /// The answer to `INFO replication` of a primary.
    pub(super) fn read(info: &str) -> Option<Self> {
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let is_primary = of("role:") == Some("master");
        is_primary.then_some(())?;
        Some(Self {
            id: of("master_replid:")?.into(),
            replicas: of("connected_slaves:")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaster_replid:abc\r\nmaster_replid2:000\r\n";

    fn history(info: &str) -> History {
        let replication = Replication::read(info).expect("a primary");
        let history = History::new(Arc::clone(&replication.id));
        history.raise(replication.replicas);
        history
    }

    #[test]
    fn a_replica_that_is_missing_is_counted_as_long_as_the_history_goes_on() {
        let history = history(INFO);
        let fewer = INFO.replace("slaves:2", "slaves:1");
        let now = Replication::read(&fewer).expect("a primary");
        assert!(history.goes_on(&now));
        assert_eq!(history.replicas(), 2);
        let more = INFO.replace("slaves:2", "slaves:3");
        assert!(history.goes_on(&Replication::read(&more).expect("a primary")));
        assert_eq!(history.replicas(), 3);
    }

    #[test]
    fn another_primary_has_another_history_and_a_replica_none() {
        let other = INFO.replace("abc", "def").replace("slaves:2", "slaves:9");
        let before = history(INFO);
        assert!(!before.goes_on(&Replication::read(&other).expect("a primary")));
        assert_eq!(before.replicas(), 2);
        assert!(before != history(&other));
        assert!(Replication::read(&INFO.replace("master\r", "slave\r")).is_none());
        assert!(Replication::read("").is_none());
    }
}

//! The replication ID of a server. It distinguishes the server from those that respond in its place before and after
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::store::redis::wire::failure::within;

/// The number of seconds in which an online replica acknowledges something. It does so every second, unless it is still
/// loading the data that it was sent.
const NEW: i64 = 2;

/// The `master_replid` of a server, which names its data, with the replicas that were seen. It changes with each
/// failover and each restart. Two of them are equal if they name the same data.
#[derive(Clone, Debug)]
pub(crate) struct ReplicationId {
    id: Arc<str>,
    /// The maximum number of replicas that the server has had with this ID, including the reports of others. A missing
    /// replica may be promoted.
    most: Arc<AtomicU32>,
    /// The number of replicas in the last response, including new ones.
    now: Arc<AtomicU32>,
}

impl PartialEq for ReplicationId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The response of a server about itself and its replicas.
#[derive(Debug)]
pub(crate) struct Replication {
    id: Arc<str>,
    /// The number of replicas that have acknowledged something, so that a `WAIT` can count them.
    replicas: u32,
    /// The number of other replicas that may soon acknowledge something.
    new: u32,
}

/// A replica, or a backup, that is connected to the server and has its data.
#[derive(Debug)]
struct Online<'i> {
    /// The host and the port that it announces. Sentinels know it by them.
    address: (&'i str, &'i str),
    has_acknowledged: bool,
    is_new: bool,
}

impl ReplicationId {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            most: Arc::default(),
            now: Arc::default(),
        }
    }

    /// Asks a server for its replication ID. `None` if it does not report one, or is not a primary, because a replica
    /// gives the ID of its primary.
    pub(crate) async fn of(driver: &MultiplexedConnection, limit: Duration) -> Option<Self> {
        let (mut driver, mut info) = (driver.clone(), cmd("INFO"));
        let asked = info.arg("replication").query_async::<String>(&mut driver);
        let info = within(limit, asked).await;
        let replication = Replication::read(&info.ok()?)?;
        let replication_id = Self::new(Arc::clone(&replication.id));
        replication_id.see(&replication);
        Some(replication_id)
    }

    /// Returns whether the server still has this ID. If so, its present replicas are counted.
    pub(crate) fn goes_on(&self, now: &Replication) -> bool {
        let goes_on = self.id == now.id;
        if goes_on {
            self.see(now);
        }
        goes_on
    }

    fn see(&self, now: &Replication) {
        self.raise(now.replicas);
        self.now.store(now.replicas + now.new, Relaxed);
    }

    /// Adds the replicas that were seen over a later connection.
    pub(crate) fn join(&self, later: &Self) {
        self.raise(later.most.load(Relaxed));
        self.now.store(later.now.load(Relaxed), Relaxed);
    }

    /// Notes that there are at least this many replicas.
    pub(crate) fn raise(&self, replicas: u32) {
        self.most.fetch_max(replicas, Relaxed);
    }

    /// The maximum number of replicas that the server has had, or has now.
    pub(crate) fn replicas(&self) -> u32 {
        self.most.load(Relaxed).max(self.now.load(Relaxed))
    }
}

impl Replication {
    /// Reads the response to `INFO replication`; `None` unless it is that of a primary.
    pub(crate) fn read(info: &str) -> Option<Self> {
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let is_primary = of("role:") == Some("master");
        is_primary.then_some(())?;
        let is_empty = of("master_repl_offset:") == Some("0");
        let online: Vec<_> = info
            .lines()
            .filter_map(|line| Online::read(line, is_empty))
            .collect();
        // A replica that has connected again after a cut is listed twice for a while.
        let addresses = |counts: fn(&Online<'_>) -> bool| {
            let counted = online.iter().filter(|it| counts(it));
            counted.map(|it| it.address).collect::<BTreeSet<_>>()
        };
        let replicas = addresses(|it| it.has_acknowledged);
        let new = addresses(|it| it.is_new);
        let count = |count: usize| u32::try_from(count).ok();
        Some(Self {
            id: of("master_replid:")?.into(),
            replicas: count(replicas.len())?,
            new: count(new.difference(&replicas).count())?,
        })
    }
}

impl<'i> Online<'i> {
    /// Reads a line of the response: `slave0:ip=10.0.0.1,port=6379,state=online,offset=900,lag=1`.
    fn read(line: &'i str, is_empty: bool) -> Option<Self> {
        let (_, fields) = line.strip_prefix("slave")?.split_once(':')?;
        let of = |name| {
            let mut fields = fields.split(',').filter_map(|it| it.split_once('='));
            fields.find_map(|(field, value)| (field == name).then_some(value))
        };
        (of("state")? == "online").then_some(())?;
        let number = |name| of(name)?.parse::<i64>().ok();
        let port = of("port")?;
        // A backup announces no address, and acknowledges nothing.
        let may_be_promoted = port != "0";
        Some(Self {
            address: (of("ip")?, port),
            has_acknowledged: number("offset")? > 0 || is_empty && may_be_promoted,
            is_new: number("lag")? <= NEW && may_be_promoted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ip=10.0.0.1,port=6379,state=online,offset=900,lag=1";
    const TWO: &str = "ip=10.0.0.2,port=6379,state=online,offset=870,lag=0";

    /// The response of a primary to which these have connected.
    fn info(connected: &[&str]) -> String {
        let mut info = "# Replication\r\nrole:master\r\n".to_owned();
        info += &format!("connected_slaves:{}\r\n", connected.len());
        for (number, line) in connected.iter().enumerate() {
            info += &format!("slave{number}:{line}\r\n");
        }
        info + "master_replid:abc\r\nmaster_replid2:000\r\nmaster_repl_offset:900\r\n"
    }

    fn replication_id(info: &str) -> ReplicationId {
        let replication = Replication::read(info).expect("a primary");
        let replication_id = ReplicationId::new(Arc::clone(&replication.id));
        assert!(replication_id.goes_on(&replication));
        replication_id
    }

    /// The number of replicas that are waited for when these are connected, one set after the other.
    fn counted(connected: &[&[&str]]) -> u32 {
        let replication_id = replication_id(&info(&[]));
        for connected in connected {
            let now = Replication::read(&info(connected)).expect("a primary");
            assert!(replication_id.goes_on(&now));
        }
        replication_id.replicas()
    }

    #[test]
    fn a_replica_that_is_missing_is_counted_as_long_as_the_history_goes_on() {
        assert_eq!(counted(&[&[ONE, TWO], &[ONE]]), 2);
        assert_eq!(counted(&[&[ONE, TWO], &[]]), 2);
        let three = ONE.replace("0.1", "0.3");
        assert_eq!(counted(&[&[ONE, TWO], &[ONE, TWO, &three], &[TWO]]), 3);
    }

    /// The lines of `redis-cli --rdb` and `--replica` in each state. Before Redis 7.0 a backup is also online for a
    /// moment.
    #[test]
    fn a_backup_is_no_replica() {
        for state in ["wait_bgsave", "send_bulk", "online", "rdb_transmitted"] {
            let backup = format!("ip=10.0.0.9,port=0,state={state},offset=0,lag=0");
            assert_eq!(counted(&[&[ONE, TWO, &backup]]), 2, "{state}");
        }
    }

    #[test]
    fn a_replica_that_is_being_added_counts_once_it_has_the_data() {
        let added = |state| format!("ip=10.0.0.3,port=6379,state={state}");
        // In Valkey, the last two are listed together with another connection of the same replica for the stream.
        for state in [
            "wait_bgsave,offset=0,lag=0",
            "send_bulk,offset=0,lag=0",
            "bg_transfer,offset=0,lag=0,type=main-channel",
        ] {
            assert_eq!(counted(&[&[ONE, TWO, &added(state)]]), 2, "{state}");
        }
        let sent = added("online,offset=0,lag=0");
        let loading = added("online,offset=0,lag=3");
        let loaded = added("online,offset=900,lag=0");
        assert_eq!(counted(&[&[ONE, TWO, &sent]]), 3);
        assert_eq!(counted(&[&[ONE, TWO, &sent], &[ONE, TWO, &loading]]), 2);
        assert_eq!(counted(&[&[ONE, TWO, &loaded], &[ONE, TWO]]), 3);
    }

    /// The primary learns that a connection was cut off long after the replica has opened another one.
    #[test]
    fn a_replica_that_has_come_back_counts_once() {
        let dead = ONE.replace("lag=1", "lag=40");
        assert_eq!(counted(&[&[ONE, TWO], &[&dead, TWO, ONE]]), 2);
        let elsewhere = ONE.replace("6379", "6380");
        assert_eq!(counted(&[&[ONE, TWO], &[TWO], &[TWO, &elsewhere]]), 2);
    }

    /// All of them acknowledge that they have nothing.
    #[test]
    fn replicas_of_a_server_that_was_not_written_to_count() {
        let replicas = [ONE, TWO].map(|it| it.replace("=900,", "=0,").replace("=870,", "=0,"));
        let [one, two] = replicas.each_ref().map(String::as_str);
        let unwritten =
            |replicas: &[&str]| info(replicas).replace("repl_offset:900", "repl_offset:0");
        let replication_id = replication_id(&unwritten(&[one, two]));
        assert_eq!(replication_id.replicas(), 2);
        let now = Replication::read(&unwritten(&[one])).expect("a primary");
        assert!(replication_id.goes_on(&now));
        assert_eq!(replication_id.replicas(), 2);
    }

    /// It acknowledges as a replica does, so a `WAIT` counts it.
    #[test]
    fn whatever_acknowledges_counts() {
        let other = "ip=10.0.0.9,port=0,state=online,offset=900,lag=0";
        assert_eq!(counted(&[&[ONE, TWO, other]]), 3);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_no_replica() {
        for line in [
            "",
            "ip=1",
            "state=online,offset=5,lag=0",
            "port=1,state=online,lag=0",
        ] {
            assert_eq!(counted(&[&[ONE, line]]), 1, "{line}");
        }
    }

    #[test]
    fn another_primary_has_another_history_and_a_replica_none() {
        let one = info(&[ONE]);
        let other = one.replace("abc", "def");
        let before = replication_id(&info(&[]));
        assert!(!before.goes_on(&Replication::read(&other).expect("a primary")));
        assert_eq!(before.replicas(), 0);
        assert!(before != replication_id(&other));
        assert!(Replication::read(&one.replace("master\r", "slave\r")).is_none());
        assert!(Replication::read("").is_none());
    }
}

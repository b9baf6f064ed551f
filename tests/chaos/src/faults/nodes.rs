//! The faults of one of several nodes. Each fault ends when all nodes are healthy, so that the next one finds replicas
//! that have everything.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::tell::{Told, insist, tell};
use crate::clock::{self, SECOND};
use crate::fault::{Kind, Target};
use crate::ground::{Ground, patiently};
use crate::schedule::Deck;
use crate::support::server::RedisServer;
use crate::support::wait::eventually;

/// The maximum delay of a replica on a busy machine, in ns.
const LAG: u64 = SECOND / 2;

const PATIENCE: Duration = Duration::from_secs(60);

/// The steps that were taken.
#[derive(Debug)]
pub(super) struct Struck {
    pub(super) target: Target,
    pub(super) forgets: Vec<(u64, u64)>,
    pub(super) over: Option<u64>,
    /// The primaries as soon as another node became one.
    replaced: Option<String>,
    pub(super) note: String,
}

/// The primary on which a fault is caused.
pub(super) struct Victim<'a> {
    pub(super) ground: &'a Ground,
    pub(super) place: usize,
    /// One of its slots, in a cluster.
    pub(super) slot: u16,
    keys: Vec<&'static str>,
}

pub(super) async fn strike(ground: &Ground, kind: Kind, deck: &mut Deck) -> Struck {
    let victim = Victim::pick(ground, deck).await;
    let mut struck = Struck {
        target: Target::Keys(victim.keys.clone()),
        forgets: Vec::new(),
        over: None,
        replaced: None,
        note: format!("node {}", victim.place),
    };
    let primary = victim.node();
    let long = deck.millis(300, 3_000);
    let away = match kind.fails_over() {
        true => Away::of(ground, deck),
        false => Away(None),
    };
    let start = clock::now();
    match kind {
        Kind::PrimaryKilled => {
            primary.stop();
            struck.forgets_until_now(start);
            victim.replaced(&mut struck).await;
            sleep(long).await;
            primary.start_again().await;
        }
        Kind::PrimaryShutDown => {
            // It waits for its replicas, and so forgets nothing.
            primary.shut_down().await;
            victim.replaced(&mut struck).await;
            sleep(long).await;
            primary.start_again().await;
        }
        Kind::PrimaryStopped => {
            primary.pause();
            struck.forgets_until_now(start);
            victim.replaced(&mut struck).await;
            sleep(long).await;
            // It considers itself a primary until it is reconfigured.
            let resumed = clock::now();
            primary.resume();
            victim.until_linked().await;
            struck.forgets.push((resumed, clock::now()));
        }
        Kind::CutThenKilled => {
            primary.cut_replication().await;
            sleep(long / 3).await;
            primary.stop();
            struck.forgets_until_now(start);
            victim.replaced(&mut struck).await;
            sleep(long).await;
            primary.start_again().await;
        }
        Kind::CutOff => {
            primary.cut_replication().await;
            // The sentinels use both. A rejection counts as no response for them.
            insist(primary, "ACL SETUSER default -ping -replicaof -slaveof").await;
            victim.replaced(&mut struck).await;
            sleep(long).await;
            insist(primary, "ACL SETUSER default +@all").await;
            victim.until_linked().await;
            struck.forgets_until_now(start);
        }
        Kind::ToldSentinel => {
            victim.tell_a_sentinel().await;
            victim.replaced(&mut struck).await;
            victim.until_linked().await;
            struck.forgets_until_now(start);
        }
        Kind::ToldReplica => {
            // It waits for the replica, and so forgets nothing.
            victim.tell_a_replica("CLUSTER FAILOVER", &mut struck).await;
        }
        Kind::TakenOver => {
            primary.cut_replication().await;
            sleep(long / 3).await;
            victim
                .tell_a_replica("CLUSTER FAILOVER TAKEOVER", &mut struck)
                .await;
            insist(primary, "ACL SETUSER default +@all").await;
            victim.until_linked().await;
            struck.forgets_until_now(start);
        }
        Kind::SlotMoved => struck.note += &victim.move_slot(deck).await,
        Kind::PrimaryFrozen => {
            primary.pause();
            sleep(deck.millis(100, 700)).await;
            primary.resume();
        }
        Kind::ReplicationCut => {
            primary.cut_replication().await;
            sleep(long).await;
            primary
                .restore_replication(victim.replicas().await.len())
                .await;
        }
        Kind::NoReplicas => {
            insist(primary, "CONFIG SET min-replicas-to-write 9").await;
            sleep(long).await;
            insist(primary, "CONFIG SET min-replicas-to-write 0").await;
        }
        Kind::Demoted => {
            // No server listens on port 1.
            insist(primary, "REPLICAOF 127.0.0.1 1").await;
            sleep(deck.millis(200, 1_000)).await;
            insist(primary, "REPLICAOF NO ONE").await;
        }
        Kind::ReplicaKilled | Kind::ReplicaStopped => {
            let replicas = victim.replicas().await;
            let place = deck.place(replicas.len());
            let replica = &ground.nodes()[replicas[place]];
            struck.note += &format!(", its replica {}", replicas[place]);
            if kind == Kind::ReplicaKilled {
                replica.stop();
                sleep(long).await;
                replica.start_again().await;
            } else {
                replica.pause();
                sleep(long).await;
                replica.resume();
            }
        }
        _ => victim.at_the_sentinels(kind, deck).await,
    }
    away.comes_back(ground).await;
    ground.settle().await;
    if let Some(replaced) = struck.replaced.take()
        && replaced != ground.signature().await
    {
        // The new primary was replaced as well, without a fault.
        struck.note += ", and then another";
        struck.forgets_until_now(start);
    }
    struck
}

impl Struck {
    fn forgets_until_now(&mut self, from: u64) {
        let from = from.saturating_sub(LAG);
        self.forgets.push((from, clock::now()));
    }
}

impl<'a> Victim<'a> {
    async fn pick(ground: &'a Ground, deck: &mut Deck) -> Victim<'a> {
        let number = deck.dice.roll(u64::from(u32::MAX));
        let (place, slot) = match ground {
            Ground::Cluster(cluster) => {
                let slot = cluster.slot_of(crate::fault::key(number)).await;
                (cluster.owner_of_slot(slot).await, slot)
            }
            Ground::Sentinel(set) => (set.primary().await, 0),
            Ground::Server { .. } => (0, 0),
        };
        Victim {
            ground,
            place,
            slot,
            keys: ground.keys_of(place).await,
        }
    }

    pub(super) fn node(&self) -> &'a RedisServer {
        &self.ground.nodes()[self.place]
    }

    /// Waits until another node is the primary in its place.
    async fn replaced(&self, struck: &mut Struck) {
        let to = self.ground.until_failed_over(self.place, self.slot).await;
        let now = clock::now();
        struck.over = Some(now);
        struck.replaced = Some(self.ground.signature().await);
        struck.note += &format!(" -> node {to} at {now}");
    }

    /// Waits until it is a replica.
    async fn until_linked(&self) {
        let linked = async || self.node().is_linked().await;
        let what = "the old primary is a replica";
        patiently(async || eventually(PATIENCE, what, linked).await).await;
    }

    async fn replicas(&self) -> Vec<usize> {
        match self.ground {
            Ground::Cluster(cluster) => vec![cluster.replica_of(self.place).await],
            _ => {
                let places = 0..self.ground.nodes().len();
                places.filter(|&place| place != self.place).collect()
            }
        }
    }

    /// Waits until it is the primary. A cluster may reject that for minutes. Then the fault ends without an effect.
    async fn tell_a_replica(&self, command: &str, struck: &mut Struck) {
        let began = async || {
            // It is another one if there was a failover before that no fault has caused.
            let replica = self.replicas().await[0];
            let replica = &self.ground.nodes()[replica];
            // It gives up after five seconds without the votes, and must be told again.
            let told = tell(replica, command).await;
            if matches!(told, Told::Answer(_)) {
                for _ in 0..60 {
                    if replica.is_primary().await {
                        return true;
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            }
            replica.is_primary().await
        };
        let end = Instant::now() + PATIENCE;
        while !began().await {
            if Instant::now() > end {
                struck.note += " -> none within a minute";
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.replaced(struck).await;
    }
}

/// A sentinel that is down while the others fail over.
struct Away(Option<usize>);

impl Away {
    /// This is so one time in three.
    fn of(ground: &Ground, deck: &mut Deck) -> Away {
        let Ground::Sentinel(set) = ground else {
            return Away(None);
        };
        if deck.dice.roll(3) > 0 {
            return Away(None);
        }
        let place = deck.place(set.sentinels.len());
        set.sentinels[place].stop();
        Away(Some(place))
    }

    async fn comes_back(self, ground: &Ground) {
        if let (Ground::Sentinel(set), Some(place)) = (ground, self.0) {
            set.sentinels[place].start_again().await;
        }
    }
}

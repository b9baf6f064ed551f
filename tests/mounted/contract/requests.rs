//! Every kind of request about one lock, in every state of it, for the claims that are about all of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use redis::cmd;

use super::readers::{share_request, shared_release};
use super::waits::wait;
use super::world::{
    FULL, MINUTE, NESTED, World, acquire_request, field_of, release_request, some_hold, some_waiter,
};
use crate::base::error::StoreError;
use crate::base::id::HoldId;
use crate::base::options::Mode;
use crate::base::process::ProcessId;
use crate::redis::Script;
use crate::store::verbs::read_description::ReadDescription;
use crate::store::{
    Acquire, AcquireRequest, AcquireShared, AcquireSharedRequest, ClaimVictim, DepthChange,
    ForceRelease, Inspect, ListHolds, ListWaits, PublishWait, QueueEntry, QueueLength, ReleaseKind,
    ReleaseRequest, Renew, RenewReaders, Residue, SeenHolders, SetDepth, StoreFuture, StoreTime,
    UpdateWait, Verb,
};

pub(super) const TTL: Duration = MINUTE.saturating_mul(9);

/// The states of a lock. The last one is left by Redis before 7.2, whose clock goes on while a script runs.
pub(super) const STATES: [&str; 9] = [
    "free",
    "held",
    "nested",
    "waited for",
    "expired and waited for",
    "shared",
    "shared and waited for",
    "with a dead reader",
    "with dead readers alone",
];

/// The holds and waiters of a state.
pub(super) struct Cast {
    pub(super) holder: HoldId,
    readers: [HoldId; 2],
    /// A process that waits for the lock exclusively.
    pub(super) waiter: (HoldId, QueueEntry),
    /// A process whose readers wait behind it.
    behind: (HoldId, QueueEntry),
    /// A process that is not known in the store.
    late: (HoldId, QueueEntry),
}

/// A request, which is sent when its answer is polled.
pub(super) struct Sending {
    pub(super) name: &'static str,
    pub(super) script: &'static Script,
    /// Whether it may travel in a batch.
    pub(super) is_short: bool,
    pub(super) answer: StoreFuture<()>,
}

/// The requests about what is beside the lock. They do not read it.
pub(super) const BESIDE: [&str; 5] = ["holds", "waits", "publish", "claim", "describe"];

impl Cast {
    /// One hold of one process in every role.
    pub(super) fn of(hold: HoldId, entry: QueueEntry) -> Self {
        let waits = (hold, entry);
        Self {
            holder: hold,
            readers: [hold, some_hold()],
            waiter: waits,
            behind: waits,
            late: waits,
        }
    }

    /// Brings an empty store into this state.
    pub(super) async fn form(world: &World, state: &str) -> Self {
        let cast = Self {
            holder: some_hold(),
            readers: [some_hold(), some_hold()],
            waiter: some_waiter(),
            behind: some_waiter(),
            late: some_waiter(),
        };
        let [(waiter, entry), (behind, place)] = [cast.waiter, cast.behind];
        match state {
            "free" => {}
            "shared" | "shared and waited for" => {
                world.read(&cast.readers, TTL).await;
                if state != "shared" {
                    world.wait(waiter, TTL, entry).await;
                    world.read_later(&[behind], place).await;
                }
            }
            "with a dead reader" => {
                world.read(&cast.readers[..1], MINUTE).await;
                world.read(&cast.readers[1..], TTL).await;
                world.pass(2 * MINUTE).await;
            }
            "with dead readers alone" => {
                world.read(&cast.readers, TTL).await;
                let mut over = cmd("ZADD");
                over.arg(world.key.queue());
                for reader in cast.readers {
                    over.arg(-1_000).arg(format!("r{reader}"));
                }
                let mut connection = world.server().connection.clone();
                let () = over.query_async(&mut connection).await.expect("ZADD");
            }
            _ => {
                world.queue(cast.holder, TTL, cast.late.1).await;
                if state == "nested" {
                    world.depth(cast.holder, 2, 1).await;
                } else if state != "held" {
                    world.wait(waiter, TTL, entry).await;
                }
                if state == "expired and waited for" {
                    world.pass(TTL + MINUTE).await;
                }
            }
        }
        cast
    }

    /// All requests, to one of which the answer is polled.
    pub(super) fn requests(&self, world: &World) -> Vec<Sending> {
        let entering = self.entering(world).into_iter();
        let inside = self.inside(world).into_iter();
        let ending = self.ending(world).into_iter();
        let looking = self.looking(world).into_iter();
        entering
            .chain(inside)
            .chain(ending)
            .chain(looking)
            .collect()
    }

    /// Sends the request of this name.
    pub(super) async fn send(&self, world: &World, name: &str) -> Result<(), StoreError> {
        let mut requests = self.requests(world).into_iter();
        let request = requests.find(|request| request.name == name);
        request.expect("a request of this name").answer.await
    }

    fn entering(&self, world: &World) -> Vec<Sending> {
        let key = &world.key;
        let (hold, entry) = self.late;
        let acquire = |hold, entry| Acquire {
            key: key.clone(),
            request: AcquireRequest {
                entry,
                ..acquire_request(hold, TTL)
            },
        };
        let share = |holds: &[HoldId], entry, limit| AcquireShared {
            key: key.clone(),
            request: AcquireSharedRequest {
                limit,
                ..share_request(holds, TTL, entry)
            },
        };
        vec![
            sending(world, "acquire", acquire(hold, None)),
            sending(world, "wait", acquire(hold, Some(entry))),
            sending(world, "acquire again", acquire(self.holder, None)),
            sending(
                world,
                "wait on",
                acquire(self.waiter.0, Some(self.waiter.1)),
            ),
            sending(world, "share", share(&[hold], None, None)),
            sending(
                world,
                "wait to share",
                share(&[hold, some_hold()], Some(entry), None),
            ),
            sending(world, "take a permit", share(&[hold], Some(entry), Some(3))),
            sending(world, "share again", share(&self.readers, None, None)),
            sending(
                world,
                "wait on to share",
                share(&[self.behind.0], Some(self.behind.1), None),
            ),
        ]
    }

    fn inside(&self, world: &World) -> Vec<Sending> {
        let (key, ttl) = (&world.key, 2 * TTL);
        let depth = |hold, mode| SetDepth {
            key: key.clone(),
            change: DepthChange {
                hold,
                mode,
                target: 3,
                seq: 2,
                ttl,
                lengthen: true,
            },
        };
        let keep = RenewReaders {
            key: key.clone(),
            holds: self.readers.to_vec(),
            ttl,
        };
        let renew = Renew {
            holds: vec![(key.clone(), self.holder)],
            ttl,
        };
        vec![
            sending(world, "renew", renew),
            sending(world, "keep", keep),
            sending(world, "nest", depth(self.holder, Mode::Exclusive)),
            sending(world, "nest a reader", depth(self.readers[0], Mode::Shared)),
        ]
    }

    fn ending(&self, world: &World) -> Vec<Sending> {
        let both = Residue {
            unanswered: true,
            nested: true,
        };
        let end_of = |request| crate::store::Release::new(world.key.clone(), request);
        let release = |hold, end| end_of(release_request(hold, end));
        let leave = |(hold, entry): (HoldId, QueueEntry), request: ReleaseRequest| ReleaseRequest {
            hold,
            inbox: entry.inbox,
            ..request
        };
        let mut left = release(self.waiter.0, FULL);
        left.request = leave(self.waiter, left.request);
        let reader = |end| end_of(shared_release(self.readers[0], end));
        let waiting = leave(self.behind, shared_release(self.behind.0, FULL));
        let force = ForceRelease {
            key: world.key.clone(),
            seen: SeenHolders {
                fields: [self.holder, self.readers[0]].map(field_of).to_vec(),
                token: None,
            },
        };
        vec![
            sending(world, "release", release(self.holder, ReleaseKind::Short)),
            sending(world, "release all", release(self.holder, FULL)),
            sending(
                world,
                "release nested",
                release(self.holder, ReleaseKind::Full(NESTED)),
            ),
            sending(
                world,
                "release both",
                release(self.holder, ReleaseKind::Full(both)),
            ),
            sending(world, "leave", left),
            sending(world, "release of a reader", reader(ReleaseKind::Short)),
            sending(world, "all of a reader", reader(FULL)),
            sending(world, "both of a reader", reader(ReleaseKind::Full(both))),
            sending(world, "leave as a reader", end_of(waiting)),
            sending(world, "force", force),
        ]
    }

    fn looking(&self, world: &World) -> Vec<Sending> {
        let (key, hold) = (&world.key, self.holder);
        let inspect = |queue| Inspect {
            key: key.clone(),
            queue,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("a time after 1970") - Duration::from_secs(1);
        let publish = UpdateWait::Publish(PublishWait {
            owner: hold.owner(),
            wait: Arc::new(wait(&[hold])),
            life: MINUTE,
            known: Some(StoreTime {
                micros: u64::try_from(now.as_micros()).expect("a time"),
            }),
        });
        let claim = ClaimVictim {
            victim: hold,
            others: vec![some_hold()],
            life: MINUTE,
        };
        let holds = ListHolds {
            key: Arc::from(key.as_str()),
        };
        vec![
            sending(world, "inspect", inspect(QueueLength::Counted)),
            sending(world, "find the holder", inspect(QueueLength::NotCounted)),
            sending(world, "holds", holds),
            sending(world, "waits", ListWaits { hold }),
            sending(world, "publish", publish),
            sending(world, "claim", claim),
            sending(world, "describe", ReadDescription(ProcessId::this())),
        ]
    }
}

fn sending<V: Verb>(world: &World, name: &'static str, verb: V) -> Sending {
    Sending {
        name,
        script: V::script(),
        is_short: verb.batch_item().is_some(),
        answer: Box::pin(world.store.ask(verb).map(|reply| reply.map(drop))),
    }
}

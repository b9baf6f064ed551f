//! Locks in Redis: each operation is one Lua script in `lua/`.

use std::{
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use deadpool_redis::{Pool, redis::Value};
use futures_util::future;
use tokio::{sync::watch, time::Instant};

use self::{
    connect::Common,
    inbox::Inbox,
    names::{Entries, Field, Fields, Victim, WaitsOf},
    outages::Outages,
    reply::Unexpected,
    script::{
        ACQUIRE, ACQUIRE_ALL, Call, DEPTH, DOWNGRADE, FORCE_RELEASE, HOLDS, INSPECT, KEEP, LOOK,
        RELEASE, RELEASE_ALL, RENEW, RENEW_ALL, RETAIN, SHARE, Script, UNSHARE, VICTIM, WAIT,
        WITHDRAW, millis,
    },
    source::Source,
    topology::Topology,
};
use super::{
    AcquireAllReply, AcquireReply, AcquireRequest, Answer, DepthChange, Downgrading, HoldOf,
    Holders, Keeping, Listener, MOST_TOGETHER, Order, Presence, ReleaseReply, ReleaseRequest,
    Renewal, SHOWN, Seen, ShareRequest, Snapshot, Store,
    waits::{Claim, Look, Publication, Published, Waits, lateness},
};
use crate::base::{
    id::{HoldId, InboxId, OwnerId},
    key::LockKey,
    mode::Mode,
};

mod address;
mod attempt;
mod cluster;
mod connect;
mod connection;
mod in_flight;
mod inbox;
mod names;
mod outages;
mod pace;
mod pushes;
mod reply;
mod script;
mod sentinels;
mod servers;
mod source;
mod topology;
mod traffic;
mod waits;

pub use self::servers::Servers;
#[cfg(any(test, fuzzing))]
pub(crate) use self::{
    address::properties::url,
    names::properties::key,
    reply::properties::{message, reply},
};
pub(crate) use self::{servers::Origin, source::Timeouts};

/// Redis: one server, the one that is the primary, or a cluster.
#[derive(Debug)]
pub(crate) struct RedisStore {
    topology: Topology,
    common: Common,
    /// None where only a pool is known, which does not give its client away.
    inbox: Option<Inbox>,
}

impl RedisStore {
    /// Connects when it is asked first.
    pub(crate) fn open(origin: Origin, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts, origin.outages());
        let source = origin.source(&common);
        Self::new(source.clone(), Some(source), common)
    }

    /// All commands go over the pool; without an origin there is no inbox.
    pub(crate) fn over(pool: Pool, origin: Option<Origin>, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts, Outages::of_one());
        let messages = origin.map(|origin| origin.source(&common));
        Self::new(Source::Pool(pool), messages, common)
    }

    fn new(commands: Source, messages: Option<Source>, common: Common) -> Self {
        let topology = Topology::new(commands, common.clone());
        let inbox = messages.map(|source| {
            let lost = {
                let topology = topology.clone();
                move || match &topology {
                    Topology::One(connector) => connector.lose(),
                    // The server of the connection is told by it.
                    Topology::Cluster(_) => {}
                }
            };
            Inbox::new(source, common.timeouts, Arc::new(lost))
        });
        Self {
            topology,
            common,
            inbox,
        }
    }

    /// Lets a lock stand until it was held for so long. False if it was already, or the hold is not in it.
    fn retain(&self, key: &LockKey, request: ReleaseRequest, min_hold: Duration) -> Answer<bool> {
        let marks = if request.tombstone { "x" } else { "" };
        let call = lock_and_line(&RETAIN, key).arg(Field(request.hold));
        self.run(call.millis(min_hold).arg(marks), reply::flag)
    }

    /// The holds that one request may be about, in their order.
    fn runs<'h>(&self, holds: &'h [HoldOf]) -> impl Iterator<Item = &'h [HoldOf]> + use<'h> {
        let spans_slots = self.topology.spans_slots();
        let together =
            move |(one, _): &HoldOf, (other, _): &HoldOf| spans_slots || one.slot() == other.slot();
        let runs = holds.chunk_by(together);
        runs.flat_map(|run| run.chunks(MOST_TOGETHER))
    }

    fn run<T: 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Value) -> Result<T, Unexpected> + Send + 'static,
    ) -> Answer<T> {
        let topology = self.topology.clone();
        Box::pin(async move { topology.run(call, read).await })
    }
}

/// The call of a script that sees all three keys of a lock.
fn lock_and_line(script: &'static Script, key: &LockKey) -> Call {
    let call = script.call(3).arg(key.as_str());
    call.arg(key.line()).arg(Entries(key))
}

impl Store for RedisStore {
    fn connect(&self) -> Answer<()> {
        let topology = self.topology.clone();
        Box::pin(async move { topology.connect().await })
    }

    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        let ttl = request.ttl;
        let call = lock_and_line(&ACQUIRE, key)
            .arg(Field(request.hold))
            .millis(ttl);
        let call = match request.entry {
            Some(entry) => call
                .arg(entry.inbox.as_bytes())
                .millis(entry.grant)
                .millis(entry.life)
                .told(entry)
                .preferred(entry),
            None => call,
        };
        self.run(call, move |reply| reply::acquired(reply, ttl))
    }

    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>> {
        let call = lock_and_line(&SHARE, key)
            .arg(Fields(&request.holds))
            .millis(request.ttl)
            .arg(
                request
                    .limit
                    .map(|limit| limit.to_string())
                    .unwrap_or_default(),
            )
            .arg(u8::from(request.passes));
        let call = match request.entry {
            Some(entry) => call
                .arg(entry.inbox.as_bytes())
                .millis(entry.grant)
                .millis(entry.life),
            None => call,
        };
        self.run(call, move |reply| reply::shared(reply, &request))
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        let with_own_lease = change.lengthen && change.mode == Mode::Shared;
        let call = DEPTH
            .call(2 + usize::from(with_own_lease))
            .arg(key.as_str())
            .arg(Entries(key));
        let call = if with_own_lease {
            call.arg(key.line())
        } else {
            call
        };
        let call = call
            .arg(Field(change.hold))
            .arg(change.target)
            .arg(change.seq)
            .millis(if change.lengthen {
                change.ttl
            } else {
                Duration::ZERO
            });
        self.run(call, reply::presence)
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        let call = RENEW
            .call(1)
            .arg(key.as_str())
            .arg(Field(renewal.hold))
            .millis(renewal.ttl);
        self.run(call, reply::presence)
    }

    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        let call = lock_and_line(&KEEP, key)
            .arg(Fields(&keeping.holds))
            .millis(keeping.ttl);
        self.run(call, reply::holds)
    }

    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence> {
        let call = lock_and_line(&DOWNGRADE, key)
            .arg(Field(downgrading.hold))
            .millis(downgrading.ttl)
            .arg(downgrading.token.0);
        self.run(call, reply::presence)
    }

    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply> {
        let script = match request.mode {
            Mode::Exclusive => &RELEASE,
            Mode::Shared => &UNSHARE,
        };
        let mut call = lock_and_line(script, key).arg(Field(request.hold));
        if !request.is_short() {
            let marks = match (request.tombstone, request.nested) {
                (true, true) => "xd",
                (true, false) => "x",
                (false, true) => "d",
                (false, false) => "",
            };
            call = call.arg(marks).arg(request.inbox.as_bytes());
        }
        if let Some(successor) = request.successor {
            let pass = u8::from(successor.order == Order::QueueFirst);
            let preferred = u8::from(successor.entry.is_preferred);
            let [lease, life] = [successor.entry.grant, successor.entry.life].map(millis);
            call = call
                .arg(Field(successor.hold))
                .millis(successor.ttl)
                .arg(format!("{pass} {lease} {life} {preferred}"))
                .told(successor.entry);
        }
        let ttl = request.successor.map(|successor| successor.ttl);
        let released = self.run(call, move |reply| reply::released(reply, ttl));
        match request.min_hold {
            None => released,
            Some(min_hold) => {
                let retained = self.retain(key, request, min_hold);
                Box::pin(async move {
                    if retained.await? {
                        return Ok(ReleaseReply {
                            presence: Presence::Present,
                            successor: None,
                        });
                    }
                    released.await
                })
            }
        }
    }

    fn acquire_all(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        let count = keys.len();
        let call = keys.iter().fold(ACQUIRE_ALL.call(2 * count), |call, key| {
            call.arg(key.as_str()).arg(key.line())
        });
        let call = call.arg(Field(hold)).millis(ttl);
        self.run(call, move |reply| reply::acquired_all(reply, count, ttl))
    }

    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        let runs = self.runs(holds).map(|run| {
            let count = run.len();
            let keys = run.iter().map(|(key, _)| key.as_str());
            let call = keys.fold(RENEW_ALL.call(count), Call::arg).millis(ttl);
            let call = fields(call, run);
            let renewed = self.run(call, move |reply| reply::renewed_all(reply, count));
            async move { Ok((count, renewed.await?)) }
        });
        let answers = future::try_join_all(runs.collect::<Vec<_>>());
        Box::pin(async move {
            let mut before = 0;
            for (count, gone) in answers.await? {
                if let Some(gone) = gone {
                    return Ok(Some(before + gone));
                }
                before += count;
            }
            Ok(None)
        })
    }

    fn release_all(&self, holds: &[HoldOf]) -> Answer<Vec<bool>> {
        let runs = self.runs(holds).map(|run| {
            let count = run.len();
            let call = run
                .iter()
                .fold(RELEASE_ALL.call(2 * count), |call, (key, _)| {
                    call.arg(key.as_str()).arg(key.line())
                });
            let call = fields(call, run);
            self.run(call, move |reply| reply::released_all(reply, count))
        });
        let answers = future::try_join_all(runs.collect::<Vec<_>>());
        Box::pin(async move { Ok(answers.await?.concat()) })
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let call = lock_and_line(&INSPECT, key).arg(SHOWN);
        self.run(call, reply::snapshot)
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<bool> {
        let token = seen.token.map(|token| token.to_string());
        let call = lock_and_line(&FORCE_RELEASE, key)
            .arg(token.unwrap_or_default())
            .arg(seen.fields);
        self.run(call, reply::flag)
    }

    fn waits(&self) -> &dyn Waits {
        self
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        let channel = self.inbox.as_ref();
        channel.is_some_and(|channel| channel.open(inbox, listener))
    }

    fn watch(&self, holders: Weak<dyn Holders>) {
        // There is one for each `Locks`.
        let _ = self.common.watched.set(holders);
    }

    fn check_subscription(&self) {
        self.inbox.iter().for_each(Inbox::check_subscription);
    }

    fn close(&self) {
        self.topology.close();
        self.inbox.iter().for_each(Inbox::close);
    }

    fn suspect(&self, key: &LockKey, since: Instant) {
        self.topology.suspect(key, since);
    }

    fn answers_within(&self, key: &LockKey) -> Duration {
        self.topology.answers_within(key)
    }

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.common.outages.watch()
    }

    fn disconnects_of(&self, key: &LockKey) -> u64 {
        self.common.outages.of(|| key.slot())
    }

    fn connection_epoch(&self, key: &LockKey) -> u64 {
        self.topology.epoch(key)
    }

    fn connection_epochs(&self) -> u64 {
        self.common.epochs.load(Relaxed)
    }

    fn spans(&self, one: &LockKey, other: &LockKey) -> bool {
        self.topology.spans_slots() || one.slot() == other.slot()
    }
}

/// Each script touches what belongs to one owner, or the victim of one cycle, or the fields of one lock.
impl Waits for RedisStore {
    fn publish_wait(&self, publication: Publication) -> Answer<Published> {
        let Publication {
            owner,
            wait,
            life,
            known,
        } = publication;
        let call = WAIT
            .call(1)
            .arg(WaitsOf(owner))
            .arg(Field(wait.id))
            .arg(waits::written(&wait))
            .millis(life)
            .millis(lateness(life))
            .arg(known.map_or(0, |known| known.micros));
        self.run(call, waits::published)
    }

    fn waits_of(&self, hold: HoldId) -> Answer<Look> {
        let call = LOOK.call(1).arg(WaitsOf(hold.owner())).arg(Field(hold));
        self.run(call, move |reply| waits::look(reply, hold))
    }

    fn holds_in(&self, key: &str) -> Answer<Vec<HoldId>> {
        self.run(HOLDS.call(1).arg(key), waits::holds)
    }

    fn claim_victim(&self, claim: Claim) -> Answer<bool> {
        let call = VICTIM
            .call(1)
            .arg(Victim(claim.cycle))
            .arg(Field(claim.victim))
            .millis(claim.life);
        self.run(call, reply::flag)
    }

    fn withdraw_wait(&self, owner: OwnerId, wait: HoldId) -> Answer<()> {
        let call = WITHDRAW.call(1).arg(WaitsOf(owner)).arg(Field(wait));
        self.run(call, |reply| reply::flag(reply).map(drop))
    }
}

/// Appends a hold id for each key.
fn fields(call: Call, holds: &[HoldOf]) -> Call {
    holds
        .iter()
        .fold(call, |call, &(_, hold)| call.arg(Field(hold)))
}

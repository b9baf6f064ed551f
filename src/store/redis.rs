//! Locks in Redis: each operation is one Lua script in `lua/`.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use deadpool_redis::Pool;
use futures_util::future;
use redis::Value;
use tokio::{sync::watch, time::Instant};

use self::{
    call::{Call, lock_and_line},
    connect::common::Common,
    inbox::Inbox,
    link::{
        outages::Outages,
        source::{Pooled, Source},
    },
    names::{Entries, Field, Fields},
    reply::Unexpected,
    script::{
        ACQUIRE, ACQUIRE_ALL, DEPTH, DOWNGRADE, FORCE_RELEASE, INSPECT, KEEP, RELEASE_ALL, RENEW,
        RENEW_ALL, SHARE,
    },
    survey::Surveyor,
    topology::Topology,
};
use super::{
    AcquireAllReply, AcquireReply, AcquireRequest, Answer, Confirmation, DepthChange, Downgrading,
    HoldOf, Holders, Keeping, Listener, MOST_TOGETHER, Presence, ReleaseReply, ReleaseRequest,
    Renewal, SHOWN, Seen, ShareRequest, Snapshot, Store, survey::Survey, waits::Waits,
};
use crate::base::{
    confirm::Replicas,
    id::{HoldId, InboxId},
    key::LockKey,
    mode::Mode,
};

mod answer_pace;
mod call;
mod connect;
mod failure;
mod in_flight;
mod inbox;
mod link;
#[cfg(any(test, feature = "__admin"))]
mod members;
mod names;
mod release;
mod replicas;
mod reply;
mod script;
mod survey;
mod topology;
mod traffic;
mod waits;

pub use self::topology::servers::Servers;
pub(crate) use self::{link::source::Timeouts, topology::servers::Origin};
#[cfg(any(test, fuzzing))]
pub(crate) use self::{
    names::properties::key,
    reply::properties::{message, reply},
    topology::servers::properties::url,
};

/// Redis: one server, the one that is the primary, or a cluster.
#[derive(Debug)]
pub(crate) struct RedisStore {
    topology: Topology,
    common: Common,
    /// None where only a pool is known, which does not give its client away.
    inbox: Option<Inbox>,
    survey: Surveyor,
}

impl RedisStore {
    /// Connects when it is asked first.
    pub(crate) fn open(origin: Origin, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts, origin.outages());
        let (topology, messages) = origin.clone().open(&common);
        Self::new(topology, Some((messages, origin)), common)
    }

    /// All commands go over the pool; without an origin there is no inbox.
    pub(crate) fn over(pool: Pool, origin: Option<Origin>, timeouts: Timeouts) -> Self {
        let common = Common::new(timeouts, Outages::of_one());
        let messages = origin.map(|origin| (origin.clone().open(&common).1, origin));
        let topology = Topology::one(Arc::new(Pooled(pool)), common.clone());
        Self::new(topology, messages, common)
    }

    fn new(
        topology: Topology,
        messages: Option<(Arc<dyn Source>, Origin)>,
        common: Common,
    ) -> Self {
        let (messages, origin) = messages.unzip();
        let inbox = messages.map(|source| {
            let topology = topology.clone();
            let lost = Arc::new(move || topology.messages_lost());
            Inbox::new(source, common.timeouts, lost)
        });
        Self {
            survey: Surveyor::new(topology.clone(), common.clone(), origin),
            topology,
            common,
            inbox,
        }
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
        self.topology.ask(call, read)
    }
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
        let ttl = request.successor.map(|successor| successor.ttl);
        let release = release::release(key, request);
        let released = self.run(release, move |reply| reply::released(reply, ttl));
        let Some(retain) = release::retain(key, request) else {
            return released;
        };
        let retained = self.run(retain, reply::flag);
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

    fn acquire_all(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        let count = keys.len();
        let call = keys.iter().fold(ACQUIRE_ALL.call(3 * count), |call, key| {
            call.arg(key.as_str()).arg(key.line())
        });
        let entries = keys.iter().map(Entries);
        let call = entries.fold(call, Call::arg).arg(Field(hold)).millis(ttl);
        self.run(call, move |reply| reply::acquired_all(reply, count, ttl))
    }

    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        let runs = self.runs(holds).map(|run| {
            let count = run.len();
            let keys = run.iter().map(|(key, _)| key.as_str());
            let call = keys.fold(RENEW_ALL.call(count), Call::arg).millis(ttl);
            let call = call.fields(run);
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
            self.run(call.fields(run), move |reply| {
                reply::released_all(reply, count)
            })
        });
        let answers = future::try_join_all(runs.collect::<Vec<_>>());
        Box::pin(async move { Ok(answers.await?.concat()) })
    }

    fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
        epoch: u64,
    ) -> Answer<Confirmation> {
        let (topology, key) = (self.topology.clone(), key.clone());
        Box::pin(async move { topology.confirm(&key, replicas, within, epoch).await })
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let call = lock_and_line(&INSPECT, key).arg(SHOWN).arg(1);
        self.run(call, reply::snapshot)
    }

    fn holders(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let call = lock_and_line(&INSPECT, key).arg(SHOWN);
        self.run(call, reply::snapshot)
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<Vec<Vec<u8>>> {
        let token = seen.token.map(|token| token.to_string());
        let call = lock_and_line(&FORCE_RELEASE, key)
            .arg(token.unwrap_or_default())
            .arg(seen.fields);
        self.run(call, reply::fields)
    }

    fn waits(&self) -> &dyn Waits {
        &self.topology
    }

    fn survey(&self) -> &dyn Survey {
        &self.survey
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

    fn server_of(&self, key: &LockKey) -> usize {
        self.topology.server_of(key)
    }

    fn is_connected(&self, key: &LockKey) -> bool {
        self.topology.is_connected(key)
    }

    fn connections(&self) -> Option<watch::Receiver<u64>> {
        Some(self.common.made.subscribe())
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
        self.topology.epochs()
    }

    fn spans(&self, one: &LockKey, other: &LockKey) -> bool {
        self.topology.spans_slots() || one.slot() == other.slot()
    }
}

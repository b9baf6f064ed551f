//! The lists of many locks, and of the queue of one lock. No request costs the store much, however much data there is,
//! and none changes anything.

use std::cmp::Reverse;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Verb;
use super::inspect::{Snapshot, look, mode, snapshot};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::base::time::StoreTime;
use crate::store::memory::{State, Want};
use crate::store::redis::wire::names::Entries;
use crate::store::redis::wire::reply::{micros, millis};
use crate::store::redis::{Call, Script, Unexpected, script};

/// The maximum number of holders that a glance returns.
pub(crate) const GLANCED: usize = 16;

/// The maximum length of a queue in which dead processes are not counted.
pub(crate) const LOOKED_AT: usize = 64;

/// The returned content of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glanced {
    /// At most [`GLANCED`] holders. If more than [`LOOKED_AT`] processes wait, dead ones are counted too.
    pub(crate) snapshot: Snapshot,
    /// The number of holders.
    pub(crate) holders: u64,
}

/// Returns the content of a lock; `None` if it is free, or if the hash does not look like a lock.
#[derive(Clone, Debug)]
pub(crate) struct Glance {
    pub(crate) key: LockKey,
}

impl Verb for Glance {
    type Reply = Option<Glanced>;

    fn lua() -> &'static Script {
        script!("glance")
    }

    fn call(&self) -> Call {
        Self::lua().on_lock(&self.key).arg(GLANCED).arg(LOOKED_AT)
    }

    /// The reply to an inspection, with the number of holders after the time.
    fn read(&self, reply: Value) -> Result<Option<Glanced>, Unexpected> {
        let Value::Array(mut values) = reply else {
            return Err(Unexpected(reply));
        };
        if values.is_empty() {
            return Ok(None);
        }
        const COUNT: usize = 5;
        let Some(&Value::Int(holders)) = values.get(COUNT) else {
            return Err(Unexpected(Value::Array(values)));
        };
        values.remove(COUNT);
        let snapshot = snapshot(Value::Array(values))?;
        let glanced = |snapshot| Glanced {
            snapshot,
            holders: u64::try_from(holders).unwrap_or_default(),
        };
        Ok(snapshot.map(glanced))
    }

    fn apply(self, state: &mut State, now: Instant) -> Option<Glanced> {
        let mut snapshot = look(state, &self.key, now)?;
        let holders = snapshot.holders.len() as u64;
        if holders > LOOKED_AT as u64 {
            // The readers whose leases expire last come first.
            snapshot
                .holders
                .sort_by_key(|holder| Reverse(holder.remaining));
        }
        snapshot.holders.truncate(GLANCED);
        let places = state
            .view(&self.key, now)
            .line(|line| line.standing().count());
        if places > LOOKED_AT {
            snapshot.waiting = places as u64;
        }
        Some(Glanced { snapshot, holders })
    }
}

/// A part of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) at: StoreTime,
    /// The number of places, including those of dead processes.
    pub(crate) places: u64,
    pub(crate) processes: Vec<QueuedProcess>,
}

/// The place of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedProcess {
    /// The inbox. Other programs may write any bytes there.
    pub(crate) inbox: Vec<u8>,
    pub(crate) order: u64,
    /// The time until which the process counts as alive; `None` if its entry is unknown.
    pub(crate) deadline: Option<StoreTime>,
    pub(crate) holds: Vec<HoldId>,
    /// The lease of a lock that moves to the process.
    pub(crate) grant: Duration,
    pub(crate) mode: Mode,
}

/// Returns a part of the processes that wait for a lock, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) key: LockKey,
    /// The order after which the part begins.
    pub(crate) after: Option<u64>,
    pub(crate) count: usize,
}

impl Verb for Queue {
    type Reply = Queued;

    fn lua() -> &'static Script {
        script!("queue")
    }

    fn call(&self) -> Call {
        let after = self.after.map(|order| order.to_string());
        let call = Self::lua().call(2).arg(self.key.line());
        let call = call.arg(Entries(&self.key));
        call.arg(after.unwrap_or_default()).arg(self.count)
    }

    fn read(&self, reply: Value) -> Result<Queued, Unexpected> {
        parse(&reply).ok_or(Unexpected(reply))
    }

    fn apply(self, state: &mut State, now: Instant) -> Queued {
        let Self { key, after, count } = self;
        let clock = state.clock;
        let is_behind = |order: u64| after.is_none_or(|after| order > after);
        let (places, processes) = state.view(&key, now).line(|line| {
            let behind = line.standing().filter(|(place, _)| is_behind(place.order));
            let processes = behind.take(count).map(|(place, process)| QueuedProcess {
                inbox: place.inbox.as_bytes().to_vec(),
                order: place.order,
                deadline: process.map(|process| clock.at(process.deadline)),
                holds: process
                    .map(|process| process.holds.clone())
                    .unwrap_or_default(),
                grant: process.map(|process| process.grant).unwrap_or_default(),
                mode: match process.map(|process| process.want) {
                    Some(Want::Shared { .. }) => Mode::Shared,
                    Some(Want::Alone { .. }) | None => Mode::Exclusive,
                },
            });
            (line.standing().count() as u64, processes.collect())
        });
        Queued {
            at: clock.at(now),
            places,
            processes,
        }
    }
}

fn parse(reply: &Value) -> Option<Queued> {
    let Value::Array(values) = reply else {
        return None;
    };
    let [Value::Int(at), Value::Int(places), rest @ ..] = &values[..] else {
        return None;
    };
    let (processes, []) = rest.as_chunks::<6>() else {
        return None;
    };
    let processes = processes.iter().map(process);
    Some(Queued {
        at: micros(*at)?,
        places: u64::try_from(*places).ok()?,
        processes: processes.collect::<Option<_>>()?,
    })
}

fn process(values: &[Value; 6]) -> Option<QueuedProcess> {
    let [
        Value::BulkString(inbox),
        Value::Int(order),
        Value::Int(deadline),
        Value::BulkString(holds),
        Value::Int(grant),
        Value::Int(is_shared @ 0..=1),
    ] = values
    else {
        return None;
    };
    let holds = str::from_utf8(holds).unwrap_or_default().split(',');
    Some(QueuedProcess {
        inbox: inbox.clone(),
        order: u64::try_from(*order).ok()?,
        deadline: micros(*deadline).filter(|deadline| deadline.micros > 0),
        holds: holds.filter_map(|hold| hold.parse().ok()).collect(),
        grant: millis(*grant)?,
        mode: mode(*is_shared == 1),
    })
}

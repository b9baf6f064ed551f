//! The end of a hold.

use std::io::Write;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs, Value};
use tokio::time::Instant;

use super::acquire::{AcquireReply, take};
use super::{Presence, Verb};
use crate::base::id::{HoldId, InboxId};
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::base::time::StoreTime;
use crate::store::memory::{State, StoredLine, View, Want};
use crate::store::records::QueueEntry;
use crate::store::redis::wire::names::Field;
use crate::store::redis::wire::reply::{self, integers};
use crate::store::redis::{Call, Script, Short, ShortWish, Unexpected, in_millis, script};

/// The request that ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseRequest {
    pub(crate) hold: HoldId,
    /// Whether the hold shares the lock, or wants to share it.
    pub(crate) mode: Mode,
    /// The inbox of the process that has the hold.
    pub(crate) inbox: InboxId,
    pub(crate) end: End,
    /// Whether other holds end with it, so that it waits for their requests.
    pub(crate) with_others: bool,
}

impl ReleaseRequest {
    /// Appends the arguments that the releases of both modes have.
    pub(super) fn append_to(&self, call: Call) -> Call {
        let call = call.arg(Field(self.hold)).arg(self.end);
        match self.end {
            End::Short => call,
            _ => call.arg(self.inbox.as_bytes()),
        }
    }

    /// The release in its form for a batch, if its end is short.
    pub(super) fn short(
        &self,
        key: &LockKey,
        alone: fn(&LockKey, HoldId) -> Call,
    ) -> Option<Short> {
        let Self { hold, mode, .. } = *self;
        (self.end == End::Short).then(|| Short {
            key: key.clone(),
            hold,
            wish: ShortWish::Release { mode, alone },
        })
    }

    /// Removes the remains of the hold in memory, or leaves its tombstone.
    pub(super) fn clear(&self, line: &mut StoredLine, now: Instant) {
        let Leftovers { unanswered, nested } = self.end.leftovers();
        if unanswered {
            line.bury(now, self.hold);
        }
        if nested {
            line.forget_changes(self.hold);
        }
    }
}

/// The way in which a hold ends. The lock of a shared hold is neither handed off nor retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Only the field of the hold can be in the store. The lock goes to the process that has waited longest.
    Short,
    /// A place in the queue may remain as well. The lock goes to the process that has waited longest.
    Full(Leftovers),
    /// The lock, or the place in the queue, goes to another hold of the process.
    HandTo(Successor, Leftovers),
    /// The lock stays held until this time after its token. If that is already over, the end is `Full`.
    Retain(Duration, Leftovers),
}

impl End {
    pub(super) fn leftovers(self) -> Leftovers {
        match self {
            Self::Short => Leftovers::default(),
            Self::Full(leftovers) | Self::HandTo(_, leftovers) | Self::Retain(_, leftovers) => {
                leftovers
            }
        }
    }

    pub(crate) fn successor(self) -> Option<Successor> {
        match self {
            Self::HandTo(successor, _) => Some(successor),
            Self::Short | Self::Full(_) | Self::Retain(..) => None,
        }
    }
}

/// The word for the end, and those for the remains of the hold. The short end has no word, so that it costs no
/// argument.
impl ToRedisArgs for End {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let name = match self {
            Self::Short => return,
            Self::HandTo(..) => "hand",
            Self::Full(_) | Self::Retain(..) => "full",
        };
        let Leftovers { unanswered, nested } = self.leftovers();
        let words = [
            (true, name),
            (unanswered, " unanswered"),
            (nested, " nested"),
        ];
        let mut out = out.writer_for_next_arg();
        for (_, word) in words.iter().filter(|(is_said, _)| *is_said) {
            // Writing to memory cannot fail.
            let _ = out.write_all(word.as_bytes());
        }
    }
}

/// The data that a hold that ends may have left in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Leftovers {
    /// Whether an acquire of the hold is unanswered. It may still arrive, and is then rejected because of a tombstone.
    pub(crate) unanswered: bool,
    /// Whether the depth of the hold may have changed. The number of its last change is removed.
    pub(crate) nested: bool,
}

/// The hold of the same process that gets the lock next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Successor {
    pub(crate) hold: HoldId,
    pub(crate) ttl: Duration,
    pub(crate) entry: QueueEntry,
    pub(crate) order: Order,
}

/// The waiter that first gets a released lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// The successor.
    SuccessorFirst,
    /// The process that has waited longest. Then the successor enters the queue.
    QueueFirst,
}

/// The result of the end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseReply {
    pub(crate) presence: Presence,
    /// The result for the successor; `None` if there is none, or if it must send its own request.
    pub(crate) successor: Option<AcquireReply>,
}

impl From<Presence> for ReleaseReply {
    fn from(presence: Presence) -> Self {
        Self {
            presence,
            successor: None,
        }
    }
}

/// Ends an exclusive hold, whether it is in the lock or in the queue, or an unanswered acquire may still put it there.
/// The lock moves to the successor, or to the process that has waited longest.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) key: LockKey,
    pub(crate) request: ReleaseRequest,
}

impl Verb for Release {
    type Reply = ReleaseReply;

    fn lua() -> &'static Script {
        script!("release")
    }

    fn call(&self) -> Call {
        let call = self.request.append_to(Self::lua().on_lock(&self.key));
        let Some(successor) = self.request.end.successor() else {
            return call;
        };
        let Successor {
            hold,
            ttl,
            entry,
            order,
        } = successor;
        let pass = u8::from(order == Order::QueueFirst);
        let [lease, life] = [entry.grant, entry.life].map(in_millis);
        let call = call.arg(Field(hold)).millis(ttl);
        call.arg(format!("{pass} {lease} {life}")).told(entry)
    }

    fn goes_with_others(&self) -> bool {
        self.request.with_others
    }

    fn short(&self) -> Option<Short> {
        self.request.short(&self.key, alone)
    }

    fn read(&self, reply: Value) -> Result<ReleaseReply, Unexpected> {
        let parse = |integers: &[i64]| {
            let (presence, successor) = match *integers {
                [presence] => (presence, None),
                [presence, 1, token, lease, at] => {
                    (presence, Some(AcquireReply::held(token, lease, at)?))
                }
                [presence, 0, remaining, now] => {
                    (presence, Some(AcquireReply::busy(remaining, now)?))
                }
                _ => return None,
            };
            let presence = match presence {
                1 => Presence::Present,
                0 => Presence::Gone,
                _ => return None,
            };
            Some(ReleaseReply {
                presence,
                successor,
            })
        };
        let released = match &reply {
            Value::Int(presence @ 0..=1) => parse(&[*presence]),
            Value::Int(token) => {
                let ttl = self.request.end.successor().map(|successor| successor.ttl);
                let taken = ttl.and_then(|ttl| AcquireReply::taken(*token, ttl));
                taken.map(|taken| ReleaseReply {
                    presence: Presence::Present,
                    successor: Some(taken),
                })
            }
            reply => integers(reply).as_deref().and_then(parse),
        };
        released.ok_or(Unexpected(reply))
    }

    fn apply(self, state: &mut State, now: Instant) -> ReleaseReply {
        let mut view = state.view(&self.key, now);
        let ReleaseRequest {
            hold, inbox, end, ..
        } = self.request;
        let successor = end.successor();
        let token = view.held(hold).map(|lock| lock.token);
        if token.is_some() {
            view.free();
        }
        // The short way of the script does not do this.
        let has_leftovers = end.leftovers() != Leftovers::default();
        let is_general = has_leftovers || view.line(|line| line.stands());
        view.line(|line| self.request.clear(line, now));
        let inbox = (end != End::Short).then_some(inbox);
        match token {
            Some(token) => ReleaseReply {
                presence: Presence::Present,
                successor: move_on(&mut view, inbox, successor, token, is_general),
            },
            None => ReleaseReply {
                presence: Presence::Gone,
                successor: inbox.and_then(|inbox| give_up(&mut view, hold, inbox, successor)),
            },
        }
    }
}

/// The short release of a hold.
fn alone(key: &LockKey, hold: HoldId) -> Call {
    Release::lua().on_lock(key).arg(Field(hold))
}

/// Moves a free lock to the successor, or to the process that has waited longest.
fn move_on(
    view: &mut View<'_>,
    inbox: Option<InboxId>,
    successor: Option<Successor>,
    token: u64,
    is_general: bool,
) -> Option<AcquireReply> {
    let is_general = is_general || view.time().micros <= token;
    let token = Some(token);
    let ahead = if successor.is_none_or(|successor| successor.order == Order::QueueFirst) {
        view.head()
    } else {
        None
    };
    match (ahead, successor) {
        (Some(_), None) => {
            view.admit(token, None);
            None
        }
        (Some(ahead), Some(successor)) if Some(ahead.inbox) != inbox => {
            enter_queue(view, successor);
            let remaining = view.admit(token, None);
            let now = view.time();
            Some(AcquireReply::Busy { remaining, now })
        }
        (_, Some(successor)) => {
            let Successor {
                hold, ttl, entry, ..
            } = successor;
            let told = entry.tells.then_some(entry.inbox);
            if let Some(inbox) = inbox {
                view.line(|line| line.leave(inbox));
            }
            Some(take(view, hold, ttl, told, token, is_general))
        }
        (None, None) => None,
    }
}

/// Removes the place in the line from a hold that may only have waited, and gives it to the successor.
fn give_up(
    view: &mut View<'_>,
    hold: HoldId,
    inbox: InboxId,
    successor: Option<Successor>,
) -> Option<AcquireReply> {
    let (is_its, is_forgotten) =
        view.line(|line| (line.names(inbox, hold), line.is_forgotten(inbox)));
    if !is_its && (!is_forgotten || successor.is_some()) {
        return None;
    }
    // Requests may overtake each other. A successor that has the lock by now would get it once more after its own
    // release.
    let waits = |successor: &Successor| view.held(successor.hold).is_none();
    let Some(successor) = successor.filter(waits) else {
        view.line(|line| line.leave(inbox));
        if view.tidy() {
            view.admit(None, None);
        }
        return None;
    };
    enter_queue(view, successor);
    let remaining = Some(view.remaining().unwrap_or_default());
    let now = view.time();
    Some(AcquireReply::Busy { remaining, now })
}

fn enter_queue(view: &mut View<'_>, successor: Successor) {
    let Successor { hold, entry, .. } = successor;
    let want = Want::Alone { tells: entry.tells };
    view.stand(vec![hold], want, entry, None);
}

/// Keeps the lock of an exclusive hold held until `min_hold` after its token. Then its lease expires. Returns false if
/// that time is already over, or if the hold is not in the lock.
#[derive(Clone, Debug)]
pub(crate) struct Retain {
    pub(crate) min_hold: Duration,
    /// The release that follows if the time is over.
    pub(crate) release: Release,
}

impl Verb for Retain {
    type Reply = bool;

    fn lua() -> &'static Script {
        script!("retain")
    }

    fn call(&self) -> Call {
        let Self { min_hold, release } = self;
        let ReleaseRequest { hold, end, .. } = release.request;
        let call = Self::lua().on_lock(&release.key).arg(Field(hold)).arg(end);
        let call = call.arg(hold.kept()).millis(*min_hold);
        call.or(release.call())
    }

    fn read(&self, reply: Value) -> Result<bool, Unexpected> {
        reply::flag(reply)
    }

    fn apply(self, state: &mut State, now: Instant) -> bool {
        let Release { key, request } = &self.release;
        let mut view = state.view(key, now);
        let time = view.time();
        let Some(lock) = view.lock().filter(|lock| lock.names(request.hold)) else {
            return false;
        };
        let token = StoreTime { micros: lock.token };
        let held_for = time.since(token).unwrap_or_default();
        let left = self.min_hold.saturating_sub(held_for);
        if left.is_zero() {
            return false;
        }
        lock.retain_until(request.hold, now + left);
        view.line(|line| request.clear(line, now));
        true
    }
}

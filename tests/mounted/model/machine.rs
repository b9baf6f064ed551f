//! The machine in the terms of the model. It translates holds and times in both directions, and brings its state into
//! the form in which states are compared.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

use super::config::{Config, ticks};
use super::hold::{Hold, Holds, Token};
use super::message::{Acquired, Answer, Message};
use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::options::QueueOptions;
use crate::queue::machine::WaitMachine;
use crate::queue::machine::waiters::{Waiter, WaiterStage};
use crate::store::{AcquireReply, AcquireRequest, HandoffMessage, QueueEntry, StoreTime};

const TICK: Duration = Duration::from_secs(1);

/// The present, which is the same instant in all states: time passes by moving everything else into the past.
static NOW: LazyLock<Instant> = LazyLock::new(|| Instant::now() + 1_000 * TICK);

/// The server's clock at the present instant.
const SERVER_NOW: u64 = 1_000_000_000;

/// The apparent age of a waiter's last reading of the clock, which is longer than any message is in flight.
const READ: u8 = 8;

const PROCESSES: u8 = 4;
const WAITERS: u8 = 4;

static HOLDS: LazyLock<Vec<HoldId>> = LazyLock::new(|| {
    let number = |at| format!("00000000-0000-4000-8000-000000000000:{}", at + 1);
    let holds = (0..PROCESSES * WAITERS).map(|at| number(at).parse());
    holds.collect::<Result<_, _>>().expect("well-formed ids")
});

static INBOX: LazyLock<InboxId> = LazyLock::new(InboxId::new);

/// A process that receives messages.
pub(crate) fn new(config: &Config) -> WaitMachine {
    let mut queue = WaitMachine::new(QueueOptions {
        heartbeat: TICK,
        turns: config.turns.into(),
        outage: Duration::MAX,
    });
    queue.listens = true;
    queue
}

pub(crate) fn now() -> Instant {
    *NOW
}

pub(crate) fn id(hold: Hold) -> HoldId {
    HOLDS[usize::from(hold.process * WAITERS + hold.waiter)]
}

pub(crate) fn hold(id: HoldId) -> Hold {
    let at = u8::try_from(id.number() - 1).expect("a hold of the model");
    Hold {
        process: at / WAITERS,
        waiter: at % WAITERS,
    }
}

pub(crate) fn span(count: u8) -> Duration {
    u32::from(count) * TICK
}

pub(crate) fn request(hold: Hold) -> AcquireRequest {
    AcquireRequest {
        hold: id(hold),
        ttl: span(ticks::TTL),
        entry: Some(QueueEntry {
            inbox: *INBOX,
            grant: span(ticks::GRANT),
            life: span(ticks::PLACE),
        }),
        with_others: false,
    }
}

/// The answer to a request of that age.
pub(crate) fn reply(acquired: Acquired, age: u8) -> AcquireReply {
    match acquired {
        Acquired::Held { token } => AcquireReply::Held {
            token: FencingToken(token.into()),
            lease: span(ticks::TTL),
            at: server(-i64::from(age)),
            is_contended: true,
        },
        Acquired::Busy { outward } => AcquireReply::Busy {
            // The end of a lease is no earlier than a heartbeat, in ticks.
            remaining: None,
            now: server(-i64::from(age) + i64::from(outward)),
        },
        Acquired::Ended => AcquireReply::Ended,
    }
}

/// The answer to readers, in the order of the request.
pub(crate) fn replies(asked: Holds, answer: Answer, age: u8) -> Vec<AcquireReply> {
    let Answer::Shared {
        inside,
        token,
        outward,
    } = answer
    else {
        return Vec::new();
    };
    let each = asked.iter().map(|hold| {
        let held = Acquired::Held { token };
        if inside.has(hold) {
            held
        } else {
            Acquired::Busy { outward }
        }
    });
    each.map(|acquired| reply(acquired, age)).collect()
}

pub(crate) fn message(message: Message) -> HandoffMessage {
    HandoffMessage {
        key: String::new(),
        holds: message.holds.iter().map(id).collect(),
        token: FencingToken(message.token.into()),
        at: server(-i64::from(message.age)),
        lease: span(ticks::GRANT),
    }
}

/// The message of this waiter, as if the lock had moved just now.
pub(crate) fn rejuvenated(queue: &WaitMachine, mut message: HandoffMessage) -> HandoffMessage {
    let mut waiters = queue.waiters.iter();
    let waiter = waiters.find(|waiter| message.holds.contains(&waiter.request.hold));
    if let Some(WaiterStage::Queued(clock)) = waiter.map(|waiter| waiter.stage) {
        let passed = now() - clock.sent;
        message.at = StoreTime {
            micros: clock.at.micros + u64::try_from(passed.as_micros()).unwrap_or(0),
        };
    }
    message
}

/// The server's clock in this number of ticks.
fn server(ticks: i64) -> StoreTime {
    let micros = 1_000_000 * ticks;
    StoreTime {
        micros: SERVER_NOW.saturating_add_signed(micros),
    }
}

/// The number of ticks until this deadline, rounded up.
pub(crate) fn left(deadline: Instant) -> u8 {
    let left = deadline.saturating_duration_since(now()).as_millis();
    u8::try_from(left.div_ceil(1_000)).unwrap_or(u8::MAX)
}

/// One tick for everything that the machine remembers.
pub(crate) fn pass(queue: &mut WaitMachine) {
    each_instant(queue, |instant| *instant -= TICK);
    queue.holders.each_until(|until| *until -= TICK);
    each_waiter(queue, |waiter| {
        if let WaiterStage::Queued(clock) = &mut waiter.stage {
            clock.sent -= TICK;
            clock.at.micros -= 1_000_000;
        }
    });
    if let Some(message) = message_of(queue) {
        message.at.micros -= 1_000_000;
    }
}

/// Brings the machine into a form in which equivalent states are equal, in ticks.
pub(crate) fn normalize(queue: &mut WaitMachine) {
    // Times within a tick, for example the pauses between two requests, are now. For a deadline, the rest of a tick
    // counts as a whole one.
    each_instant(queue, |instant| {
        let whole = (*instant).saturating_duration_since(now()).as_secs();
        *instant = now() + Duration::from_secs(whole);
    });
    let whole = |until: &mut Instant| *until = now() + span(left(*until));
    queue.holders.each_until(whole);
    queue.backoff.reset();
    each_waiter(queue, |waiter| {
        waiter.was_requested = false;
        if let WaiterStage::Queued(clock) = &mut waiter.stage {
            // Only the difference between the two clocks counts.
            let ahead = clock.at.micros + micros(now() - clock.sent);
            clock.sent = now() - span(READ);
            clock.at.micros = ahead - micros(span(READ));
        }
    });
    if let Some(message) = message_of(queue) {
        let age = SERVER_NOW.saturating_sub(message.at.micros) / 1_000_000;
        if age >= u64::from(ticks::GRANT) {
            // It only says that it is time to send a request.
            message.at = server(-i64::from(ticks::GRANT));
            message.token = FencingToken(0);
        }
    }
}

pub(crate) fn each_token(queue: &mut WaitMachine, mut visit: impl FnMut(&mut Token)) {
    if let Some(message) = message_of(queue) {
        let mut token = Token::try_from(message.token.0).expect("a token of the model");
        visit(&mut token);
        message.token = FencingToken(token.into());
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

fn message_of(queue: &mut WaitMachine) -> Option<&mut HandoffMessage> {
    queue.in_flight.as_mut()?.message.as_deref_mut()
}

fn each_waiter(queue: &mut WaitMachine, visit: impl FnMut(&mut Waiter)) {
    let request = queue.in_flight.as_mut();
    let left = request.into_iter().flat_map(|request| &mut request.left);
    queue.waiters.iter_mut().chain(left).for_each(visit);
}

fn each_instant(queue: &mut WaitMachine, mut visit: impl FnMut(&mut Instant)) {
    queue.request_at.iter_mut().for_each(&mut visit);
    queue.free_at.iter_mut().for_each(&mut visit);
    queue.unclaimed.iter_mut().for_each(|(due, _)| visit(due));
}

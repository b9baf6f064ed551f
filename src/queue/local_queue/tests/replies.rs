//! The replies and messages of the store in a story.

use std::sync::Arc;
use std::time::Duration;

use super::events::after;
use super::story::*;
use crate::base::error::{Effect, StoreError};
use crate::base::id::FencingToken;
use crate::queue::step::{Answer, Input, Reply};
use crate::store::{AcquireReply, HandoffMessage, StoreTime};

fn answered(reply: impl FnOnce(&Story) -> Reply + 'static) -> Event {
    Box::new(move |story| {
        let (sent, sent_epoch) = story.flight.unwrap();
        let (epoch, reply) = (story.epoch, reply(story));
        Some(Input::Answered(Answer {
            sent,
            sent_epoch,
            epoch,
            reply,
        }))
    })
}

/// The waiter has the lock, for a lease of 30 s that counts from its request.
pub(super) fn held() -> Event {
    let lease = millis(TTL);
    answered(move |_| {
        Reply::Acquire(AcquireReply::Held {
            token: TOKEN,
            lease,
            at: StoreTime { micros: TOKEN.0 },
            is_contended: false,
        })
    })
}

/// These readers have the lock, for a lease of 30 s, and the other readers of the request wait.
pub(super) fn shared(inside: &'static str) -> Event {
    answered(move |story| {
        let lease = millis(TTL);
        let at = StoreTime { micros: TOKEN.0 };
        let now = story.store_time();
        let each = story.asked.iter().map(|waiter| {
            if inside.contains(*waiter) {
                AcquireReply::Held {
                    token: TOKEN,
                    lease,
                    at,
                    is_contended: true,
                }
            } else {
                AcquireReply::Busy {
                    remaining: None,
                    now,
                }
            }
        });
        Reply::Share(each.collect())
    })
}

/// A grant that arrives when the lease has expired.
pub(super) fn held_too_late() -> Event {
    after(TTL, held())
}

const TOKEN: FencingToken = FencingToken(1);

/// Another hold has the lock, and its lease never expires.
pub(super) fn busy() -> Event {
    busy_until(None)
}

/// Another hold has the lock for this long.
pub(super) fn busy_for(remaining: u64) -> Event {
    busy_until(Some(millis(remaining)))
}

fn busy_until(remaining: Option<Duration>) -> Event {
    answered(move |story| {
        let now = story.store_time();
        Reply::Acquire(AcquireReply::Busy { remaining, now })
    })
}

/// An acquire was not answered, and may have been executed.
pub(super) fn unanswered() -> Event {
    answered(|_| Reply::Unanswered(error(Effect::Unknown)))
}

/// An acquire was not executed.
pub(super) fn failed() -> Event {
    answered(|_| Reply::Unanswered(error(Effect::None)))
}

/// An acquire was not executed, and never will be.
pub(super) fn refused() -> Event {
    answered(|_| Reply::Refused(error(Effect::Refused)))
}

fn error(effect: Effect) -> StoreError {
    StoreError::new("acquire", &Arc::from("the store"), effect, "a test")
}

/// The lock has moved to this waiter just now.
pub(super) fn message(waiter: char) -> Event {
    message_after(0, waiter)
}

/// The lock has moved to this waiter. The message travels for this long.
pub(super) fn message_after(span: u64, waiter: char) -> Event {
    messages_after(span, vec![waiter])
}

/// The lock has moved to these readers just now.
pub(super) fn message_to(waiters: &'static str) -> Event {
    messages_after(0, waiters.chars().collect())
}

fn messages_after(span: u64, waiters: Vec<char>) -> Event {
    Box::new(move |story| {
        let at = story.store_time();
        story.now += millis(span);
        let message = HandoffMessage {
            key: "order:42".to_owned(),
            holds: waiters.into_iter().map(hold).collect(),
            token: TOKEN,
            at,
            lease: millis(GRANT),
        };
        Some(Input::Handoff {
            message,
            epoch: story.epoch,
        })
    })
}

/// There is another connection now.
pub(super) fn reconnect() -> Event {
    Box::new(|story| {
        story.epoch += 1;
        None
    })
}

/// Says whether messages can arrive from now on.
pub(super) fn listens(listens: bool) -> Event {
    Box::new(move |_| Some(Input::Listening(listens)))
}

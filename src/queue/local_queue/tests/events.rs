//! The events of a story: those of the time, of the callers, and of the store.

use std::ops::RangeInclusive;
use std::time::Duration;

pub(super) use super::replies::*;
use super::story::*;
use crate::base::id::InboxId;
use crate::base::option_types::Mode;
use crate::queue::step::{Input, Wish};
use crate::store::{AcquireRequest, QueueEntry};

impl Story {
    /// A caller acquires the free lock and enters.
    pub(super) fn held_by(self, holder: char) -> Self {
        let (ask, grant) = (format!("acquire {holder}"), format!("grant {holder}"));
        self.goes([
            (join(holder), &*ask),
            (held(), &*grant),
            (enter(holder), ""),
        ])
    }

    /// The lock is released, and nothing is left.
    pub(super) fn released_by(self, holder: char) {
        let rows = [
            (enter(holder), ""),
            (release(holder), ""),
            (released(holder), ""),
        ];
        self.goes(rows).ends();
    }
}

// ---- time ----

/// This time passes.
pub(super) fn after(span: u64, event: Event) -> Event {
    Box::new(move |story| {
        story.now += millis(span);
        event(story)
    })
}

/// The time that the machine has set is reached. It is this far away.
pub(super) fn due(span: u64) -> Event {
    due_within(span..=span)
}

pub(super) fn due_within(spans: RangeInclusive<u64>) -> Event {
    Box::new(move |story| {
        let due = story.due_in().unwrap();
        let bounds = millis(*spans.start())..=millis(*spans.end());
        assert!(
            bounds.contains(&due),
            "{}: {due:?} is not in {bounds:?}",
            story.name
        );
        story.now += due;
        Some(Input::Due)
    })
}

/// The driver runs before the time that the machine has set.
pub(super) fn early(span: u64) -> Event {
    after(span, Box::new(|_| Some(Input::Due)))
}

/// The machine has set no time.
pub(super) fn never_due() -> Event {
    Box::new(|story| {
        assert_eq!(story.queue.due(), None, "{}", story.name);
        None
    })
}

/// A hold continues, and nothing else must be done.
pub(super) fn idle() -> Event {
    Box::new(|story| {
        let queue = &story.queue;
        assert!(
            !queue.is_active() && !queue.is_over(),
            "{}: {queue:?}",
            story.name
        );
        None
    })
}

// ---- callers ----

/// A caller that waits.
pub(super) fn join(waiter: char) -> Event {
    join_with(waiter, TTL)
}

/// A caller that waits, with this TTL.
pub(super) fn join_with(waiter: char, ttl: u64) -> Event {
    enlist(waiter, Mode::Exclusive, millis(ttl), false, false)
}

/// A caller that waits, with this TTL, and may continue the hold of another one.
pub(super) fn join_heir(waiter: char, ttl: u64) -> Event {
    enlist(waiter, Mode::Exclusive, millis(ttl), true, false)
}

/// A caller that does not wait.
pub(super) fn ask_once(waiter: char) -> Event {
    enlist(waiter, Mode::Exclusive, millis(TTL), false, true)
}

/// A reader that waits.
pub(super) fn read(waiter: char) -> Event {
    read_with(waiter, TTL)
}

/// A reader that waits, with this TTL.
pub(super) fn read_with(waiter: char, ttl: u64) -> Event {
    enlist(waiter, Mode::Shared, millis(ttl), false, false)
}

/// A reader that does not wait.
pub(super) fn read_once(waiter: char) -> Event {
    enlist(waiter, Mode::Shared, millis(TTL), false, true)
}

/// From now on a hold shares its lock.
pub(super) fn downgrade(holder: char) -> Event {
    Box::new(move |_| Some(Input::Downgraded(hold(holder))))
}

fn enlist(waiter: char, mode: Mode, ttl: Duration, may_inherit: bool, asks_once: bool) -> Event {
    Box::new(move |story| {
        let entry = (!asks_once).then(|| QueueEntry {
            inbox: InboxId::new(),
            grant: millis(GRANT),
            life: millis(GRANT),
            tells: may_inherit,
        });
        let request = AcquireRequest {
            hold: hold(waiter),
            ttl,
            entry,
        };
        story.requests.insert(waiter, request);
        Some(Input::Join(wish(request, mode, asks_once, may_inherit)))
    })
}

pub(super) fn wish(
    request: AcquireRequest,
    mode: Mode,
    asks_once: bool,
    may_inherit: bool,
) -> Wish {
    Wish {
        request,
        mode,
        limit: None,
        takes: 1,
        asks_once,
        grace: crate::base::time::Grace::NONE,
        may_inherit,
    }
}

pub(super) fn leave(waiter: char) -> Event {
    Box::new(move |_| Some(Input::Leave(hold(waiter))))
}

pub(super) fn enter(waiter: char) -> Event {
    enter_turn(waiter, waiter)
}

/// A caller enters the hold of another caller.
pub(super) fn enter_turn(waiter: char, of: char) -> Event {
    let (waiter, hold) = (hold(waiter), hold(of));
    Box::new(move |_| Some(Input::Entered { waiter, hold }))
}

/// The first waiter that may continue a hold of this TTL.
pub(super) fn heir(ttl: u64, expected: Option<char>) -> Event {
    heir_of(ttl, false, expected)
}

/// The waiter that may continue a hold whose lock was not in the store for a heartbeat.
pub(super) fn late_heir(ttl: u64, expected: Option<char>) -> Event {
    heir_of(ttl, true, expected)
}

fn heir_of(ttl: u64, is_late: bool, expected: Option<char>) -> Event {
    Box::new(move |story| {
        let heir = story.queue.heir(millis(ttl), is_late).map(letter);
        assert_eq!(heir, expected, "{}: {:?}", story.name, story.queue);
        None
    })
}

pub(super) fn hand_off(of: char, waiter: char) -> Event {
    let (hold, waiter) = (hold(of), hold(waiter));
    Box::new(move |story| {
        let grant = story.grants[&of];
        Some(Input::HandOff {
            hold,
            waiter,
            until: grant.lease.deadline,
        })
    })
}

/// The release of a hold is sent.
pub(super) fn release(holder: char) -> Event {
    Box::new(move |_| Some(Input::Release(hold(holder))))
}

/// The release of a hold is answered, or is given up.
pub(super) fn released(holder: char) -> Event {
    Box::new(move |_| Some(Input::Released(hold(holder))))
}

pub(super) fn lost(holder: char) -> Event {
    Box::new(move |_| Some(Input::Lost(hold(holder))))
}

/// Another process has begun to wait.
pub(super) fn contended() -> Event {
    Box::new(|_| Some(Input::Contended))
}

/// The lock may be free.
pub(super) fn free() -> Event {
    Box::new(|_| Some(Input::MaybeFree))
}

/// The `Locks` is closed.
pub(super) fn close() -> Event {
    Box::new(|_| Some(Input::Close))
}

//! The properties of the machine of a local queue, whatever happens. Each caller is answered once. Each hold of which
//! the store may know is released once. No two requests are in flight. No writer is inside with a reader, or with
//! another writer, as long as their leases are valid.
//!
//! Mounted by `src/queue/machine.rs`.

use proptest::prelude::*;

#[path = "wait_machine/callers.rs"]
mod callers;
#[path = "wait_machine/event.rs"]
mod event;
#[path = "wait_machine/request.rs"]
mod request;
#[path = "wait_machine/shell.rs"]
mod shell;
#[path = "wait_machine/store.rs"]
mod store;

use self::callers::is_entered;
use self::event::{Event, any_event, any_queueing};
use self::shell::{Caller, Shell};

impl Shell {
    /// All requests are answered, all callers complete, and time passes.
    fn ends(mut self, are_messages_lost: bool) {
        for _ in 0..1_000 {
            self.happens(Event::Another {
                comes: false,
                reads: false,
            });
            while let Some(message) = self.store.message(0) {
                if !are_messages_lost {
                    self.hear(message);
                }
            }
            self.happens(Event::Answer);
            self.happens(Event::Finish(0));
            self.happens(Event::Enter(0));
            self.happens(Event::Release(0));
            let due = self.machine.due().filter(|_| self.flight.is_none());
            self.now = due.map_or(self.now, |due| due.max(self.now));
            self.drive();
            let is_over = self.machine.is_finished() && self.releases.is_empty();
            if is_over && self.pick(0, is_entered).is_none() {
                return self.is_consistent();
            }
        }
        panic!("it does not end: {self:?}");
    }

    fn is_consistent(&self) {
        let gone = self
            .callers
            .iter()
            .all(|(_, caller)| *caller == Caller::Gone);
        assert!(gone, "{self:?}");
        for (hold, record) in &self.records {
            assert_eq!(
                record.releases,
                u32::from(record.is_known),
                "{hold}: {self:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_caller_is_answered_and_every_hold_is_released_once(
        queueing in any_queueing(),
        events in prop::collection::vec(any_event(), 0..80),
        are_messages_lost: bool,
    ) {
        let mut shell = Shell::new(queueing);
        for event in events {
            shell.happens(event);
        }
        shell.ends(are_messages_lost);
    }
}

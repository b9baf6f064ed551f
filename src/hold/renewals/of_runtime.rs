//! The holds that are renewed on one runtime. It has their schedule and the readers of each key, and decides which of
//! them are renewed together.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::backlogs::Backlogs;
use super::batches::{Batch, OpenBatches};
use super::pace::Pace;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::hold::hold::Hold;
use crate::hold::lease::Due;
use crate::hold::renewable::Renewable;
use crate::hold::schedule::{Schedule, ScheduleSlot};
use crate::store::Store;

/// The maximum number of due holds that one turn handles. A caller that acquires a lock at the same time waits for that
/// long.
const AT_ONCE: usize = 1_000;

/// The maximum number of readers that are renewed together, because a script can name only a few thousand.
const MOST_READERS: usize = 500;

/// The holds that are renewed on one runtime.
pub(super) struct OfRuntime {
    pub(super) runtime: Handle,
    pub(super) holds: Schedule<Arc<Hold>>,
    pub(super) backlogs: Backlogs,
    pub(super) pace: Pace,
    pub(super) readers: Readers,
    /// The count of disconnects that its task has processed.
    pub(super) disconnects: u64,
    /// The time of the next check whether there is still a hold.
    pub(super) look_at: Instant,
    /// The time until which its task sleeps; `None` while it does not sleep.
    pub(super) sleeps_until: Option<Instant>,
    /// The signal that wakes its task. It also distinguishes the task from the next one.
    pub(super) signal: Arc<Notify>,
}

/// The result of a turn.
#[derive(Default)]
pub(super) struct DueHolds {
    pub(super) due: Vec<Batch>,
    pub(super) lost: Vec<Arc<Hold>>,
}

impl OfRuntime {
    /// Returns the signal that wakes the task, if it would sleep beyond `due`.
    pub(super) fn wake_by(&mut self, due: Instant) -> Option<Arc<Notify>> {
        let until = self.sleeps_until?;
        (due < until).then(|| {
            self.sleeps_until = None;
            Arc::clone(&self.signal)
        })
    }

    /// The time at which the next hold must be handled.
    pub(super) fn earliest(&self) -> Option<Instant> {
        let backlogs = self.backlogs.all();
        let deadlines = backlogs.filter_map(|backlog| self.holds.earliest_in(backlog));
        deadlines.chain(self.holds.earliest()).min()
    }

    pub(super) fn take_due(&mut self, disconnects: u64, store: &Store, now: Instant) -> DueHolds {
        let mut found = DueHolds::default();
        if self.disconnects != disconnects {
            self.disconnects = disconnects;
            self.holds
                .reschedule(|hold| hold.due(store.disconnects_of(hold.key())));
        }
        let mut open = OpenBatches::default();
        for backlog in self.backlogs.all() {
            self.begin(backlog, store, now, &mut open, &mut found);
        }
        for _ in 0..AT_ONCE {
            let Some(slot) = self.holds.pop_due(now) else {
                break;
            };
            let Some(hold) = self.look(slot, store, now, &mut found) else {
                continue;
            };
            let (server, deadline) = (store.server_of(hold.key()), hold.deadline());
            let (backlogs, holds) = (&mut self.backlogs, &self.holds);
            let backlog = backlogs.of(server, |it| holds.earliest_in(it).is_none());
            // The holds that already wait come first.
            let is_next = self.holds.earliest_in(backlog).is_none();
            if !is_next || !self.start(hold, backlog, store, &mut open, &mut found) {
                self.holds.put_into(backlog, slot, deadline);
            }
        }
        open.fill(&mut self.holds, store, now, &mut found.due);
        for batch in &mut found.due {
            let Renewable(holds) = &batch.holds;
            // The holds that were separated must meet again.
            let first = holds.first().filter(|hold| !hold.is_renewed_alone());
            batch.next_within = first.and_then(|hold| self.pace.begin(hold.ttl(), now));
        }
        found
    }

    /// Removes the holds from a backlog for which there is room, and those whose leases have expired.
    fn begin(
        &mut self,
        backlog: usize,
        store: &Store,
        now: Instant,
        open: &mut OpenBatches,
        found: &mut DueHolds,
    ) {
        while let Some(deadline) = self.holds.earliest_in(backlog) {
            let has_room = self.backlogs.has_room(backlog) || !open.is_empty();
            if deadline > now && !has_room {
                return;
            }
            let Some(slot) = self.holds.pop_from(backlog) else {
                return;
            };
            if let Some(hold) = self.look(slot, store, now, found)
                && !self.start(hold, backlog, store, open, found)
            {
                self.holds.put_into(backlog, slot, deadline);
                return;
            }
        }
    }

    /// Adds a hold to the batch that it belongs to, or begins a batch. Returns false if there is no room for another
    /// batch.
    fn start(
        &mut self,
        hold: Arc<Hold>,
        backlog: usize,
        store: &Store,
        open: &mut OpenBatches,
        found: &mut DueHolds,
    ) -> bool {
        let Err(hold) = open.add(hold, store, &mut found.due) else {
            return true;
        };
        if !self.backlogs.has_room(backlog) {
            return false;
        }
        self.backlogs.enter(backlog);
        open.begin(&hold, store, found.due.len());
        found.due.push(Batch {
            holds: self.together(hold, store),
            backlog,
            next_within: None,
        });
        true
    }

    /// The hold in the slot, if it must be renewed now.
    fn look(
        &mut self,
        slot: ScheduleSlot,
        store: &Store,
        now: Instant,
        found: &mut DueHolds,
    ) -> Option<Arc<Hold>> {
        let hold = Arc::clone(self.holds.get(slot)?);
        match hold.look(store.disconnects_of(hold.key()), now) {
            Due::Renewal => return Some(hold),
            Due::At(at) => self.holds.set_due(slot, at),
            Due::Lost => found.lost.push(hold),
        }
        None
    }

    /// The holds that are renewed together with a hold that is due, whenever they would be due themselves. They are the
    /// holds of its acquisition at its server, or the readers of its key. So they are due together from then on.
    fn together(&mut self, hold: Arc<Hold>, store: &Store) -> Renewable {
        let server = store.server_of(hold.key());
        let (others, most) = match hold.group() {
            Some(group) => (group.members(), usize::MAX),
            None if hold.mode() == Mode::Shared => (self.readers.like(&hold), MOST_READERS - 1),
            None => (Vec::new(), 0),
        };
        let (runtime, schedule) = (self.runtime.id(), &mut self.holds);
        let others = others.into_iter().filter(|other| {
            let seat = other.seat().filter(|(_, there)| *there == runtime);
            let is_there = !other.is_covered() && store.server_of(other.key()) == server;
            is_there && seat.is_some_and(|(slot, _)| schedule.suspend(slot))
        });
        let others: Vec<_> = others.take(most).collect();
        Renewable(iter::once(hold).chain(others).collect())
    }
}

/// The readers of each key, so that one request renews all of them. Readers that belong to an acquisition of several
/// keys are not included.
#[derive(Debug, Default)]
pub(super) struct Readers {
    of: HashMap<LockKey, Vec<Arc<Hold>>, RandomState>,
}

impl Readers {
    /// Adds a hold that has entered the schedule.
    pub(super) fn push(&mut self, hold: &Arc<Hold>) {
        if hold.mode() == Mode::Shared && hold.group().is_none() {
            let readers = self.of.entry(hold.key().clone()).or_default();
            readers.push(Arc::clone(hold));
        }
    }

    /// Removes a hold that has ended.
    pub(super) fn remove(&mut self, hold: &Arc<Hold>) {
        if hold.mode() == Mode::Exclusive {
            return;
        }
        if let Some(readers) = self.of.get_mut(hold.key()) {
            readers.retain(|other| !Arc::ptr_eq(other, hold));
            if readers.is_empty() {
                self.of.remove(hold.key());
            }
        }
    }

    /// The readers of its key with its TTL.
    pub(super) fn like(&self, hold: &Arc<Hold>) -> Vec<Arc<Hold>> {
        let readers = self.of.get(hold.key()).into_iter().flatten();
        readers
            .filter(|other| other.ttl() == hold.ttl())
            .cloned()
            .collect()
    }
}

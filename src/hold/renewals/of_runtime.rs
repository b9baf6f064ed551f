//! The holds that are renewed on one runtime: their schedule, the readers of each key, and how many renewals are in
//! flight at each server.

use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::hold::hold::Hold;
use crate::hold::lease::Due;
use crate::hold::renewable::Renewable;
use crate::hold::schedule::{Schedule, ScheduleSlot};
use crate::store::Store;

/// How many of those that are due are looked at in one turn: a caller that takes a lock meanwhile waits for so long.
const AT_ONCE: usize = 1_000;

/// So many readers are renewed together at most: a script can name a few thousand.
const MOST_READERS: usize = 500;

/// The holds that are renewed on one runtime.
pub(super) struct OfRuntime {
    pub(super) runtime: Handle,
    pub(super) holds: Schedule<Arc<Hold>>,
    pub(super) backlogs: Backlogs,
    pub(super) readers: Readers,
    /// The count of disconnects that its task has heard of.
    pub(super) disconnects: u64,
    /// When its task looks next whether there is still a hold.
    pub(super) look_at: Instant,
    /// Until when its task sleeps, once it does.
    pub(super) sleeps_until: Option<Instant>,
    /// Wakes its task, and tells it from the next one.
    pub(super) signal: Arc<Notify>,
}

/// What a turn has found.
#[derive(Default)]
pub(super) struct DueHolds {
    /// What is renewed now, and in which backlog it has a place.
    pub(super) due: Vec<(Renewable, usize)>,
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

    /// When the next hold must be looked after.
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
        for _ in 0..AT_ONCE {
            let Some(slot) = self.holds.pop_due(now) else {
                break;
            };
            let Some(hold) = self.look(slot, store, now, &mut found) else {
                continue;
            };
            let (server, deadline) = (store.server_of(hold.key()), hold.deadline());
            let (backlogs, holds) = (&mut self.backlogs, &mut self.holds);
            let backlog = backlogs.of(server, |it| holds.earliest_in(it).is_none());
            holds.put_into(backlog, slot, deadline);
        }
        for backlog in self.backlogs.all() {
            self.begin(backlog, store, now, &mut found);
        }
        found
    }

    /// Takes those out of a backlog for which there is room, and those whose leases have ended.
    fn begin(&mut self, backlog: usize, store: &Store, now: Instant, found: &mut DueHolds) {
        while let Some(deadline) = self.holds.earliest_in(backlog) {
            if deadline > now && !self.backlogs.has_room(backlog) {
                return;
            }
            let slot = self.holds.pop_from(backlog);
            if let Some(hold) = slot.and_then(|slot| self.look(slot, store, now, found)) {
                self.backlogs.enter(backlog);
                found.due.push((self.together(hold, store), backlog));
            }
        }
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

    /// What is renewed together with a hold that is due, whenever it would be due itself: those of its acquisition at its
    /// server, or the readers of its key. So they are due together from then on.
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

/// The readers of each key, so that one request renews all of them; without those that are a part of an acquisition of
/// several keys.
#[derive(Debug, Default)]
pub(super) struct Readers {
    of: HashMap<LockKey, Vec<Arc<Hold>>, RandomState>,
}

impl Readers {
    /// A hold has come into the schedule.
    pub(super) fn push(&mut self, hold: &Arc<Hold>) {
        if hold.mode() == Mode::Shared && hold.group().is_none() {
            let readers = self.of.entry(hold.key().clone()).or_default();
            readers.push(Arc::clone(hold));
        }
    }

    /// A hold has ended. One that was downgraded is not here.
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

/// How many renewals of one runtime are in flight at one server: many enough to keep it busy over a distance of 10 ms,
/// and few enough for all to be answered within the response timeout.
const MOST: usize = 1_000;

/// How few of them are in flight when the next ones are sent: one by one they would cost a turn of the schedule each.
const REFILL: usize = 750;

/// The servers at which renewals are due or in flight. The index of a server is the index of its backlog.
///
/// Without a bound, what falls due at once beyond what a process can send is late before it is sent, is sent once more,
/// and so keeps the rest from being sent. And a server that does not answer must not hold up the renewals at the others.
#[derive(Debug, Default)]
pub(super) struct Backlogs(Vec<AtServer>);

#[derive(Debug)]
struct AtServer {
    /// Tells it from other servers.
    server: usize,
    in_flight: usize,
}

impl Backlogs {
    /// The backlog of a server. One that nothing of another server is in may become it.
    pub(super) fn of(&mut self, server: usize, is_empty: impl Fn(usize) -> bool) -> usize {
        let known = self.0.iter().position(|at| at.server == server);
        let idle = || (0..self.0.len()).find(|&it| self.0[it].in_flight == 0 && is_empty(it));
        match known.or_else(idle) {
            Some(backlog) => {
                self.0[backlog].server = server;
                backlog
            }
            None => {
                self.0.push(AtServer {
                    server,
                    in_flight: 0,
                });
                self.0.len() - 1
            }
        }
    }

    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.0.len()
    }

    pub(super) fn has_room(&self, backlog: usize) -> bool {
        self.0.get(backlog).is_some_and(|at| at.in_flight < MOST)
    }

    pub(super) fn enter(&mut self, backlog: usize) {
        self.0[backlog].in_flight += 1;
    }

    /// Returns whether it is time to send the next ones.
    pub(super) fn leave(&mut self, backlog: usize) -> bool {
        self.0[backlog].in_flight -= 1;
        self.0[backlog].in_flight == REFILL
    }
}

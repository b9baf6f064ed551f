//! The holds that are renewed on one runtime.

use std::sync::Arc;

use tokio::{runtime::Handle, sync::Notify, time::Instant};

use super::backlogs::Backlogs;
use crate::{
    base::mode::Mode,
    hold::{
        lease::Due,
        readers::Readers,
        renewable::{Renewed, Together},
        schedule::{Schedule, Slot},
    },
    store::Store,
};

/// How many of those that are due are looked at in one turn: a caller that takes a lock meanwhile waits for so long.
const AT_ONCE: usize = 1_000;

/// The holds that are renewed on one runtime.
pub(super) struct OfRuntime {
    pub(super) runtime: Handle,
    pub(super) holds: Schedule<Renewed>,
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
pub(super) struct Found {
    /// What is renewed now, and in which backlog it has a place. What is at several servers has none.
    pub(super) due: Vec<(Together, Option<usize>)>,
    pub(super) lost: Vec<Renewed>,
}

impl OfRuntime {
    /// The task is to be woken for what is due then, if it sleeps for longer.
    pub(super) fn wake_by(&mut self, due: Instant) -> Option<Arc<Notify>> {
        let until = self.sleeps_until?;
        (due < until).then(|| {
            self.sleeps_until = None;
            Arc::clone(&self.signal)
        })
    }

    /// When the next hold is to be looked after.
    pub(super) fn earliest(&self) -> Option<Instant> {
        let backlogs = self.backlogs.all();
        let deadlines = backlogs.filter_map(|backlog| self.holds.earliest_in(backlog));
        deadlines.chain(self.holds.earliest()).min()
    }

    pub(super) fn take_due(&mut self, disconnects: u64, store: &Store, now: Instant) -> Found {
        let mut found = Found::default();
        if self.disconnects != disconnects {
            self.disconnects = disconnects;
            let of = |renewed: &Renewed| renewed.due(|key| store.disconnects_of(key));
            self.holds
                .reschedule(|renewed, due| of(renewed).unwrap_or(due));
        }
        for _ in 0..AT_ONCE {
            let Some(slot) = self.holds.pop_due(now) else {
                break;
            };
            let Some(renewed) = self.look(slot, store, now, &mut found) else {
                continue;
            };
            let (Some(server), Some(deadline)) = (renewed.server(store), renewed.deadline()) else {
                found.due.push((self.together(renewed), None));
                continue;
            };
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
    fn begin(&mut self, backlog: usize, store: &Store, now: Instant, found: &mut Found) {
        while let Some(deadline) = self.holds.earliest_in(backlog) {
            if deadline > now && !self.backlogs.has_room(backlog) {
                return;
            }
            let slot = self.holds.pop_from(backlog);
            if let Some(renewed) = slot.and_then(|slot| self.look(slot, store, now, found)) {
                self.backlogs.enter(backlog);
                found.due.push((self.together(renewed), Some(backlog)));
            }
        }
    }

    /// What stands there, if it is to be renewed now.
    fn look(
        &mut self,
        slot: Slot,
        store: &Store,
        now: Instant,
        found: &mut Found,
    ) -> Option<Renewed> {
        let renewed = self.holds.get(slot)?.clone();
        match renewed.look(|key| store.disconnects_of(key), now)? {
            Due::Renewal => return Some(renewed),
            Due::At(at) => self.holds.set_due(slot, at),
            Due::Lost => found.lost.push(renewed),
        }
        None
    }

    /// What is renewed together with one that is due: the readers of a key, whenever they would be due themselves. So
    /// they are due together from then on.
    fn together(&mut self, renewed: Renewed) -> Together {
        let hold = match &renewed {
            Renewed::One(hold) if hold.mode() == Mode::Shared => hold,
            _ => return Together::Entry(renewed),
        };
        let schedule = &mut self.holds;
        let mut holds = self.readers.beside(hold, |other| {
            let seat = other.seat();
            seat.is_some_and(|(slot, _)| schedule.suspend(slot))
        });
        if holds.is_empty() {
            return Together::Entry(renewed);
        }
        holds.push(Arc::clone(hold));
        Together::Readers(holds)
    }
}

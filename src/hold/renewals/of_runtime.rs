//! The holds that are renewed on one runtime.

use std::sync::Arc;

use tokio::{runtime::Handle, sync::Notify, time::Instant};

use crate::{
    base::{key::LockKey, mode::Mode},
    hold::{
        lease::Due,
        readers::Readers,
        renewed::{Renewed, Together},
        schedule::Schedule,
    },
};

/// The holds that are renewed on one runtime.
pub(super) struct OfRuntime {
    pub(super) runtime: Handle,
    pub(super) holds: Schedule<Renewed>,
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

impl OfRuntime {
    /// The task is to be woken for what is due then, if it sleeps for longer.
    pub(super) fn wake_by(&mut self, due: Instant) -> Option<Arc<Notify>> {
        let until = self.sleeps_until?;
        (due < until).then(|| {
            self.sleeps_until = None;
            Arc::clone(&self.signal)
        })
    }

    pub(super) fn take_due(
        &mut self,
        (disconnects, disconnects_of): (u64, &dyn Fn(&LockKey) -> u64),
        now: Instant,
        due: &mut Vec<Together>,
        lost: &mut Vec<Renewed>,
    ) {
        if self.disconnects != disconnects {
            self.disconnects = disconnects;
            self.holds
                .reschedule(|renewed, due| renewed.due(disconnects_of).unwrap_or(due));
        }
        while let Some(slot) = self.holds.pop_due(now) {
            let Some(renewed) = self.holds.get(slot).cloned() else {
                continue;
            };
            match renewed.look(disconnects_of, now) {
                Some(Due::At(at)) => self.holds.set_due(slot, at),
                Some(Due::Renewal) => due.push(self.together(renewed)),
                Some(Due::Lost) => lost.push(renewed),
                None => {}
            }
        }
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

//! One turn of a schedule, which begins the renewals that are due, as far as there is room.

use std::sync::{Arc, Weak};

use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::batches::Batch;
use super::of_runtime::OfRuntime;
use super::{LOOKS, RenewalSchedule};
use crate::hold::renewable::Renewable;

impl RenewalSchedule {
    /// Does what is due. Returns until when the task sleeps; `None` if it ends.
    pub(super) fn turn(
        self: &Arc<Self>,
        signal: &Arc<Notify>,
        disconnects: u64,
    ) -> Option<Instant> {
        let (found, until, runtime) = {
            let mut runtimes = self.runtimes.lock();
            let of = of_signal(&mut runtimes, signal)?;
            let now = Instant::now();
            if of.look_at <= now {
                if of.holds.is_empty() {
                    runtimes.retain(|of| !Arc::ptr_eq(&of.signal, signal));
                    return None;
                }
                of.look_at = now + LOOKS;
            }
            let found = of.take_due(disconnects, self.store(), now);
            let until = of.earliest();
            let until = until.map_or(of.look_at, |until| until.min(of.look_at));
            of.sleeps_until = Some(until);
            (found, until, of.runtime.clone())
        };
        for hold in found.lost {
            self.queues.lost(hold.key(), hold.id());
        }
        for batch in found.due {
            let place = RenewalPlace {
                renewals: Arc::downgrade(self),
                signal: Arc::clone(signal),
                backlog: batch.backlog,
            };
            let renewals = Arc::clone(self);
            drop(runtime.spawn(async move { renewals.renew(batch, place).await }));
        }
        Some(until)
    }

    async fn renew(&self, batch: Batch, place: RenewalPlace) {
        let holds = batch.holds;
        let again = select! {
            biased;
            () = holds.until_ended() => return,
            again = self.attempt(holds.clone(), place) => again,
        };
        let Renewable(mut holds) = holds;
        holds.retain(|hold| {
            let is_lost = hold.lost().is_some();
            if is_lost {
                self.queues.lost(hold.key(), hold.id());
            }
            !is_lost
        });
        let within = batch.next_within.filter(|_| again.is_none());
        if let Some(due) = within.map(|within| Instant::now() + within) {
            holds.iter().for_each(|hold| hold.bring_forward(due));
        }
        self.put_back(&holds, again);
    }

    /// Notes that a renewal is no longer in flight.
    fn leave(&self, place: &RenewalPlace) {
        let mut runtimes = self.runtimes.lock();
        let Some(of) = of_signal(&mut runtimes, &place.signal) else {
            return;
        };
        if of.backlogs.leave(place.backlog) && of.holds.earliest_in(place.backlog).is_some() {
            of.signal.notify_one();
        }
    }
}

/// The runtime that has this signal, unless it has ended.
fn of_signal<'a>(runtimes: &'a mut [OfRuntime], signal: &Arc<Notify>) -> Option<&'a mut OfRuntime> {
    let mut known = runtimes.iter_mut();
    known.find(|of| Arc::ptr_eq(&of.signal, signal))
}

/// The slot of a renewal among those that may be in flight at a server.
#[derive(Debug)]
struct RenewalPlace {
    renewals: Weak<RenewalSchedule>,
    /// Notifies the runtime.
    signal: Arc<Notify>,
    backlog: usize,
}

impl Drop for RenewalPlace {
    fn drop(&mut self) {
        if let Some(renewals) = self.renewals.upgrade() {
            renewals.leave(self);
        }
    }
}

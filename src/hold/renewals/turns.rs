//! One turn of a schedule: it begins the renewals that are due, as far as there is room.

use std::sync::{Arc, Weak};

use tokio::{select, sync::Notify, time::Instant};

use super::{LOOKS, RenewalSchedule, of_runtime::OfRuntime};
use crate::hold::{
    renewable::{Renewed, Together},
    renewal::{Unrenewed, renew},
};

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
        for renewed in found.lost {
            self.notice_loss(&renewed);
        }
        for (together, backlog) in found.due {
            let place = backlog.map(|backlog| Place {
                renewals: Arc::downgrade(self),
                signal: Arc::clone(signal),
                backlog,
            });
            let renewals = Arc::clone(self);
            drop(runtime.spawn(async move { renewals.renew(&together, place).await }));
        }
        Some(until)
    }

    async fn renew(&self, together: &Together, place: Option<Place>) {
        let limit = self.response_timeout;
        let renewal = renew(together, self.store(), limit, &self.failures, place);
        let outcome = select! {
            biased;
            () = together.until_ended() => return,
            outcome = renewal => outcome,
        };
        let again = match outcome {
            Err(Unrenewed::Until(again)) => Some(again),
            Ok(()) | Err(Unrenewed::Lost) => None,
        };
        match together {
            Together::Readers(holds) => holds.iter().for_each(|hold| {
                let renewed = Renewed::of(hold);
                if hold.lost().is_some() {
                    self.notice_loss(&renewed);
                } else {
                    self.put_back(&renewed, again);
                }
            }),
            Together::Entry(renewed) if outcome == Err(Unrenewed::Lost) => {
                self.notice_loss(renewed);
            }
            Together::Entry(renewed) => self.put_back(renewed, again),
        }
    }

    /// A renewal is not in flight any more.
    fn leave(&self, place: &Place) {
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

/// One of the renewals that may be in flight at a server.
#[derive(Debug)]
struct Place {
    renewals: Weak<RenewalSchedule>,
    /// Tells the runtime.
    signal: Arc<Notify>,
    backlog: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(renewals) = self.renewals.upgrade() {
            renewals.leave(self);
        }
    }
}

//! The attempts of one renewal. They are sent, and their responses are handled as [`Renewal`] decides.

use std::future::pending;
use std::ops::ControlFlow::{self, Break, Continue};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::select;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::time::Instant;

use super::RenewalSchedule;
use crate::base::error::StoreError;
use crate::base::events;
use crate::base::events::Throttle;
use crate::base::timer::sleep_until;
use crate::hold::confirm;
use crate::hold::hold::Hold;
use crate::hold::renewable::{RenewReply, RenewRequest, Renewable};
use crate::hold::renewal::{AttemptFailure, By, Failed, NextAttempt, Renewal};
use crate::store::Store;

/// An attempt that has ended.
struct EndedAttempt {
    request: RenewRequest,
    by: By,
    outcome: Result<RenewReply, StoreError>,
}

impl EndedAttempt {
    async fn by_server(request: RenewRequest, store: &Store) -> Self {
        let outcome = request.send(store).await;
        let by = By::Server;
        Self {
            request,
            by,
            outcome,
        }
    }

    /// An attempt that the server has answered continues with its replicas.
    async fn by_replicas(request: RenewRequest, reply: RenewReply, store: &Store) -> Self {
        let outcome = confirm::renewed(&request, reply, store).await;
        Self {
            request,
            by: By::Replicas,
            outcome,
        }
    }
}

/// A renewal that is in flight.
struct RenewalInFlight<'s, P> {
    schedule: &'s RenewalSchedule,
    /// The holds that have neither ended nor been lost.
    holds: Renewable,
    renewal: Renewal,
    attempts: FuturesUnordered<BoxFuture<'s, EndedAttempt>>,
    /// The slot among the requests in flight. It is kept until the server has responded, because the replicas need
    /// none.
    place: Option<P>,
}

impl RenewalSchedule {
    /// Sends attempts until the store has responded, or the last lease has expired. A hold that is gone by then, or
    /// whose lease has expired, is lost. Returns the instant of the next renewal, if this one gives way before that.
    pub(super) async fn attempt(&self, holds: Renewable, place: impl Send) -> Option<Instant> {
        let mut connections = self.store().connections();
        let mut in_flight = RenewalInFlight {
            schedule: self,
            holds,
            renewal: Renewal::new(self.response_timeout, Instant::now()),
            attempts: FuturesUnordered::new(),
            place: Some(place),
        };
        while let Some(until) = in_flight.send_due() {
            let RenewalInFlight {
                attempts, renewal, ..
            } = &mut in_flight;
            select! {
                biased;
                Some(attempt) = attempts.next() => {
                    if let Break(again) = in_flight.take_in(attempt) {
                        return again;
                    }
                }
                Ok(()) = changed(&mut connections), if renewal.is_pausing() => {
                    renewal.connected(Instant::now());
                }
                () = sleep_until(until) => {}
            }
        }
        None
    }
}

impl<P> RenewalInFlight<'_, P> {
    /// Sends an attempt if one is due. Returns until when to wait then; `None` if no hold is left.
    fn send_due(&mut self) -> Option<Instant> {
        let store = self.schedule.store();
        loop {
            // The waiters for a lock that was lost do not wait for the response about the others.
            let queues = &self.schedule.queues;
            self.holds
                .retain_held(|hold| queues.lost(hold.key(), hold.id()));
            let (now, deadline) = (Instant::now(), self.holds.deadline()?);
            let is_connected = || self.holds.is_connected(store);
            match self.renewal.next(now, deadline, is_connected) {
                NextAttempt::WaitUntil(until) => return Some(until),
                NextAttempt::Send { silent_since } => {
                    silent_since.iter().for_each(|since| self.doubt(*since));
                    let request = RenewRequest::new(&self.holds.0, store);
                    self.attempts
                        .push(EndedAttempt::by_server(request, store).boxed());
                }
            }
        }
    }

    /// Processes an attempt. Ends the renewal if nothing is left to renew, or if it gives way until some instant.
    fn take_in(&mut self, attempt: EndedAttempt) -> ControlFlow<Option<Instant>> {
        let (request, by) = (attempt.request, attempt.by);
        match attempt.outcome {
            Ok(reply) => {
                if by == By::Server {
                    drop(self.place.take());
                    // No replica is needed to know that a hold is gone, and the other waiters do not wait for it.
                    request.lose(&reply);
                    request.separate_failed(&reply);
                    if request.awaits_replicas(&reply) {
                        self.renewal.confirming();
                        let store = self.schedule.store();
                        let confirmed = EndedAttempt::by_replicas(request, reply, store);
                        self.attempts.push(confirmed.boxed());
                        return Continue(());
                    }
                }
                request.confirm(&reply);
                for asked in request.renewed(&reply) {
                    renewed(&asked.hold);
                }
                // A hold whose renewal has failed, or is not confirmed, remains due, and gets its next turn.
                return Break(None);
            }
            Err(error) => {
                let failure = AttemptFailure {
                    by,
                    sent: request.sent,
                    effect: error.effect(),
                    is_cut: request.is_cut(self.schedule.store()),
                };
                let Failed { is_news, gives_way } = self.renewal.failed(failure, Instant::now());
                if is_news {
                    unanswered(&self.holds);
                }
                retried(&self.holds, Some(&error), &self.schedule.failures);
                if by == By::Server && request.separate(&error) {
                    return Break(None);
                }
                if gives_way.is_some() {
                    return Break(gives_way);
                }
            }
        }
        Continue(())
    }

    /// Doubts the connections of attempts that have had no response since then.
    fn doubt(&self, since: Instant) {
        unanswered(&self.holds);
        retried(&self.holds, None, &self.schedule.failures);
        for hold in &self.holds.0 {
            self.schedule.store().suspect(hold.key(), since);
        }
    }
}

/// Resolves when a connection was opened.
async fn changed(connections: &mut Option<watch::Receiver<u64>>) -> Result<(), RecvError> {
    match connections {
        Some(connections) => connections.changed().await,
        None => pending().await,
    }
}

fn renewed(hold: &Hold) {
    let renewed = || events::renewed(hold.key(), hold.id(), hold.deadline());
    hold.span().in_scope(renewed);
}

fn unanswered(holds: &Renewable) {
    for hold in &holds.0 {
        events::renewal_unanswered(hold.key());
    }
}

fn retried(holds: &Renewable, error: Option<&StoreError>, warnings: &Throttle) {
    for hold in &holds.0 {
        let retried = || events::renewal_retried(hold.key(), hold.id(), error, warnings);
        hold.span().in_scope(retried);
    }
}

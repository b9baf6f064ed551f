//! One attempt to renew leases: a request with a permit, and the next place of its holds.

use std::future::pending;
use std::sync::Arc;

use tokio::select;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::time::Instant;

use super::RenewalSchedule;
use super::runtime_schedule::Permit;
use crate::base::error::{Effect, StoreError};
use crate::base::events;
use crate::base::timer::sleep_until;
use crate::hold::confirm;
use crate::hold::hold::Hold;
use crate::hold::renew_request::{MIN_PATIENCE, RenewRequest, next_attempt};
use crate::store::RenewAnswer;

impl RenewalSchedule {
    /// Sends a request, and puts its holds back when it was answered, unless they no longer need it.
    ///
    /// An attempt without a response is not given up, because the store may only be far away. The next one is sent in
    /// addition, and the first response counts. A renewal that arrives late can only lengthen the lease of a hold that
    /// exists. An error is not a response: the old deadline stays.
    pub(super) async fn attempt(&self, request: RenewRequest, permit: Permit) {
        select! {
            biased;
            () = request.until_settled() => {}
            () = self.ask(&request, permit) => {}
        }
    }

    async fn ask(&self, request: &RenewRequest, permit: Permit) {
        // A connection that is opened from now on ends the pause after a failure.
        let connections = self.store().connections();
        let answers = match request.send(self.store()).await {
            Ok(answers) => answers,
            Err(error) => return self.retry(request, &error, permit, connections).await,
        };
        // The replicas need no permit.
        drop(permit);
        // No replica is needed to know that a hold is gone, and the other waiters do not wait for it.
        for hold in request.lose(&answers) {
            self.queues.note_loss(hold.key(), hold.id());
        }
        request.separate_failed(&answers);
        if request.common.terms.confirm.is_some() {
            self.put_back(&request.holds, |hold| hold.deadline());
        }
        match confirm::renewed(request, &answers, self.store()).await {
            Ok(()) => self.finish(request, &answers),
            Err(error) => {
                let (failed, again) = self.fail(request, &error);
                self.put_back(&failed, |_| again);
            }
        }
    }

    fn finish(&self, request: &RenewRequest, answers: &[RenewAnswer]) {
        for hold in request.renewed(answers) {
            let was_early = hold.state.lock().lease.is_early(request.sent);
            request.confirm(hold);
            hold.align(self.epoch, was_early);
            let renewed = || events::renewed(hold.key(), hold.id(), hold.deadline());
            hold.span().in_scope(renewed);
        }
        // A hold whose renewal has failed is still due.
        let earliest = request.sent + MIN_PATIENCE;
        self.put_back(&request.holds, |hold| {
            let generation = self.generation();
            hold.state.lock().lease.due(generation).max(earliest)
        });
    }

    /// Puts the holds back after an attempt that has failed.
    async fn retry(
        &self,
        request: &RenewRequest,
        error: &StoreError,
        permit: Permit,
        mut connections: Option<watch::Receiver<u64>>,
    ) {
        let (failed, again) = self.fail(request, error);
        if error.effect() == Effect::None {
            // The server executes nothing, so the permit is kept through the pause: the cost of an outage does not grow
            // with the number of holds.
            select! {
                biased;
                Ok(()) = changed(&mut connections) => {}
                () = sleep_until(again) => {}
            }
            self.put_back(&failed, |_| Instant::now());
        } else {
            self.put_back(&failed, |_| again);
        }
        drop(permit);
    }

    /// Reports a failure. Returns the holds for which no later attempt was sent, and the time of their next one.
    fn fail(&self, request: &RenewRequest, error: &StoreError) -> (Vec<Arc<Hold>>, Instant) {
        let mut failed = Vec::new();
        for hold in request.holds.iter().filter(|hold| hold.is_renewed()) {
            self.report_retry(hold, Some(error));
            // A later attempt has reported that this one had no response.
            if hold.fail_attempt(request.sent) {
                events::renewal_unanswered(hold.key());
                failed.push(Arc::clone(hold));
            }
        }
        let soon = Instant::now() + MIN_PATIENCE;
        let is_urgent = request.separate(error) || request.is_cut(self.store());
        let pause = next_attempt(&failed, request.sent, self.response_timeout) - request.sent;
        let again = soon.max(request.sent + pause / 2);
        (failed, if is_urgent { soon } else { again })
    }

    pub(super) fn report_retry(&self, hold: &Hold, error: Option<&StoreError>) {
        let retried = || events::renewal_retried(hold.key(), hold.id(), error, &self.failures);
        hold.span().in_scope(retried);
    }
}

/// Resolves when a connection was opened.
async fn changed(connections: &mut Option<watch::Receiver<u64>>) -> Result<(), RecvError> {
    match connections {
        Some(connections) => connections.changed().await,
        None => pending().await,
    }
}

//! One renewal: it decides when its attempts are sent, and what a failure of one of them means (P4).
//!
//! It is a value without a clock, a store or an await of its own: instants, responses and failures are passed to it.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::Effect;

/// The minimum time from an attempt without a response to the next one.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// A renewal that is in flight. It ends with a response, with the last lease, or by giving way.
///
/// An attempt that was sent and has no response yet is not given up, because the store may only be far away. The next
/// one is sent in addition, and the first response counts. A renewal that arrives late can only lengthen the lease of a
/// hold that exists. An error is not a response: the old deadline stays.
///
/// It continues through the pauses while the server executes nothing. So only the renewals in flight send requests to
/// an unavailable server, whatever the number of its holds. After any other failure it gives way to the next hold,
/// because its own lock may be the cause of the failure.
#[derive(Debug)]
pub(super) struct Renewal {
    response_timeout: Duration,
    backoff: Backoff,
    /// The time of the next attempt, unless there is something to wait for.
    next: Instant,
    /// The time after which the latest attempt is overdue.
    patience: Duration,
    /// The number of attempts without a response.
    in_flight: usize,
    /// The number of them that the server has answered, but its replicas have not.
    confirming: usize,
    /// The instant since which an attempt is without a response.
    silent_since: Option<Instant>,
    /// Whether the latest attempt waits for a connection.
    is_unsent: bool,
    /// The instant of the last report of attempts without a response.
    told_at: Option<Instant>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// An attempt is sent.
    Send {
        /// The instant since which earlier attempts are without a response, if that must be reported.
        silent_since: Option<Instant>,
    },
    /// No attempt is sent before this instant.
    WaitUntil(Instant),
}

/// The one that has ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Server,
    /// The replicas, or the step that asks them, after the server had responded.
    Replicas,
}

/// The failure of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptFailure {
    pub(super) by: By,
    pub(super) sent: Instant,
    pub(super) effect: Effect,
    /// Whether a connection was lost since it was sent.
    pub(super) is_cut: bool,
}

/// The meaning of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// Whether it has not been reported yet that the attempt is without a response.
    pub(super) is_news: bool,
    /// The renewal ends. Its holds are due again at this instant.
    pub(super) gives_way: Option<Instant>,
}

impl Renewal {
    pub(super) fn new(response_timeout: Duration, now: Instant) -> Self {
        Self {
            response_timeout,
            backoff: Backoff::default(),
            next: now,
            patience: response_timeout,
            in_flight: 0,
            confirming: 0,
            silent_since: None,
            is_unsent: false,
            told_at: None,
        }
    }

    /// The next step, if the first lease expires at `deadline`.
    pub(super) fn next(
        &mut self,
        now: Instant,
        deadline: Instant,
        is_connected: impl FnOnce() -> bool,
    ) -> NextAttempt {
        self.patience = patience(self.response_timeout, deadline, now);
        if now < self.next {
            return NextAttempt::WaitUntil(self.next.min(deadline));
        }
        self.next = now + self.patience;
        let is_unsent = !is_connected();
        if self.in_flight > 0 && (self.is_unsent || self.confirming > 0) {
            self.is_unsent &= is_unsent;
            return NextAttempt::WaitUntil(self.next.min(deadline));
        }
        self.is_unsent = is_unsent;
        let silent_since = self.silent_since;
        self.told_at = silent_since.map_or(self.told_at, |_| Some(now));
        self.silent_since = silent_since.or(Some(now));
        self.in_flight += 1;
        NextAttempt::Send { silent_since }
    }

    /// Returns whether no attempt is in flight, so that a new connection ends the pause.
    pub(super) fn is_pausing(&self) -> bool {
        self.in_flight == 0
    }

    /// Notes that there is a connection again.
    pub(super) fn connected(&mut self, now: Instant) {
        self.next = now;
    }

    /// Notes that the server has answered an attempt, which replicas must confirm.
    pub(super) fn confirming(&mut self) {
        self.confirming += 1;
    }

    pub(super) fn failed(&mut self, failure: AttemptFailure, now: Instant) -> Failed {
        let AttemptFailure {
            by,
            sent,
            effect,
            is_cut,
        } = failure;
        self.ended(by);
        let is_news = self.told_at.is_none_or(|at| at <= sent);
        let is_last = self.in_flight == 0;
        let gives_way = (is_last && effect != Effect::None).then(|| {
            let again = if is_cut {
                now
            } else {
                sent + self.patience / 2
            };
            again.max(now + LEAST_PATIENCE)
        });
        if is_last && gives_way.is_none() {
            self.next = now + self.backoff.next_pause().min(self.patience);
        }
        Failed { is_news, gives_way }
    }

    fn ended(&mut self, by: By) {
        self.in_flight -= 1;
        self.confirming -= usize::from(by == By::Replicas);
        self.silent_since = None;
    }
}

/// The time to wait for a response before the next attempt. Two more attempts fit into the remaining lease.
fn patience(response_timeout: Duration, deadline: Instant, now: Instant) -> Duration {
    let patience = response_timeout.min(deadline.saturating_duration_since(now) / 3);
    patience.max(LEAST_PATIENCE)
}

//! One renewal: when its attempts are sent, and what a failure of one means (P4).
//!
//! A value without a clock, a store or an await of its own: instants, answers and failures are told to it.

use std::time::Duration;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::error::Effect;

#[cfg(test)]
mod tests;

/// How soon after an attempt without an answer the next one follows, at the least.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);

/// A renewal that is in flight. It ends with an answer, with the last lease, or by giving way.
///
/// An attempt that was sent and has no answer yet is not given up, since the store may only be far away: the next one is
/// sent beside it, and the first answer counts. A renewal that arrives late can only lengthen the lease of a hold that is
/// there. An error is no answer: the old deadline stands.
///
/// It goes on through the pauses while the server executes nothing, so that all those of a server that is away ask it no
/// more often than these. After any other failure it gives way to the next hold: what fails may be this lock.
#[derive(Debug)]
pub(super) struct Renewal {
    response_timeout: Duration,
    backoff: Backoff,
    /// When an attempt is sent, unless there is something to wait for.
    next: Instant,
    /// How long the latest attempt is waited for.
    patience: Duration,
    /// How many attempts are without an answer.
    in_flight: usize,
    /// How many of them the server has answered, and its replicas not yet.
    confirming: usize,
    /// Since when an attempt is without an answer.
    silent_since: Option<Instant>,
    /// Whether the latest attempt waits for a connection.
    is_unsent: bool,
    /// When attempts without an answer were told last.
    told_at: Option<Instant>,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// An attempt is sent.
    Send {
        /// Since when those before it are without an answer, which is told.
        silent_since: Option<Instant>,
    },
    /// Nothing before this instant.
    WaitUntil(Instant),
}

/// Who has ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Server,
    /// The replicas, or what was to ask them, once the server had answered.
    Replicas,
}

/// How an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttemptFailure {
    pub(super) by: By,
    pub(super) sent: Instant,
    pub(super) effect: Effect,
    /// Whether a connection was lost since it was sent.
    pub(super) is_cut: bool,
}

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// Whether it has not been told yet that the attempt is without an answer.
    pub(super) is_news: bool,
    /// The renewal ends. Its holds are asked for again at this instant.
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

    /// What is done now, where the first lease ends at `deadline`.
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

    /// Whether no attempt is on its way, so that a new connection ends the pause.
    pub(super) fn is_pausing(&self) -> bool {
        self.in_flight == 0
    }

    /// There is a connection again.
    pub(super) fn connected(&mut self, now: Instant) {
        self.next = now;
    }

    /// The server has answered an attempt, which replicas are to confirm.
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

/// How long to wait for an answer before the next attempt. Two more fit into what is left.
fn patience(response_timeout: Duration, deadline: Instant, now: Instant) -> Duration {
    let patience = response_timeout.min(deadline.saturating_duration_since(now) / 3);
    patience.max(LEAST_PATIENCE)
}

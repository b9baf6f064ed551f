//! What may go wrong in a run, and what may still be expected of the locks.

use std::time::Duration;

/// The kinds of faults that there are in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Climate {
    /// Messages are lost, late, or come twice.
    pub(super) messages: bool,
    /// The connection of an inbox ends, several times in a second, and that for commands goes on.
    pub(super) flaps: bool,
    /// Requests and answers are lost, late, executed twice or out of order; connections are cut.
    pub(super) network: bool,
    /// The server restarts with its data, or stands still for a while.
    pub(super) restarts: bool,
    /// All data is lost, or one lock is taken from its holder.
    pub(super) data_loss: bool,
    pub(super) clock_ahead: bool,
    pub(super) clock_back: bool,
    /// All processes stand still, and the store goes on.
    pub(super) pauses: bool,
    pub(super) kills: bool,
}

impl Climate {
    pub(super) const CALM: Self = Self {
        messages: false,
        flaps: false,
        network: false,
        restarts: false,
        data_loss: false,
        clock_ahead: false,
        clock_back: false,
        pauses: false,
        kills: false,
    };

    pub(super) const WILD: Self = Self {
        messages: true,
        flaps: true,
        network: true,
        restarts: true,
        data_loss: true,
        clock_ahead: true,
        clock_back: true,
        pauses: true,
        kills: true,
    };

    /// Whether a lease lasts in the store as long as it was given for. Then no other hold is inside
    /// before it ends (P1); otherwise only tokens protect.
    pub(super) fn keeps_leases(self) -> bool {
        !(self.data_loss || self.clock_ahead)
    }

    /// Whether the store never says that a hold is gone whose lease has not ended.
    pub(super) fn keeps_holds(self) -> bool {
        self.keeps_leases() && !self.pauses
    }

    /// Whether tokens grow: not promised where the clock goes back that they are made of.
    pub(super) fn keeps_order(self) -> bool {
        !self.clock_back
    }

    /// Whether every request is answered in time.
    pub(super) fn answers(self) -> bool {
        !(self.network || self.restarts || self.pauses)
    }

    /// Whether nothing but the way of the messages may delay a waiter, so that it enters within two
    /// heartbeats (P9).
    pub(super) fn is_prompt(self) -> bool {
        self.answers() && self.keeps_leases() && !self.clock_back && !self.kills
    }
}

/// What becomes of one request and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// How long the request travels.
    pub(super) there: Duration,
    /// Whether it is executed at all.
    pub(super) arrives: bool,
    /// Whether it is executed although the connection is cut while it travels.
    pub(super) survives_a_cut: bool,
    /// How long after the first time it is executed once more.
    pub(super) again: Option<Duration>,
    /// How long the answer travels.
    pub(super) back: Duration,
    /// Whether the answer arrives.
    pub(super) answered: bool,
}

impl Fate {
    /// What becomes of a request while all is well.
    pub(super) fn good() -> Self {
        Self {
            there: travel(),
            arrives: true,
            survives_a_cut: true,
            again: None,
            back: travel(),
            answered: true,
        }
    }

    /// What becomes of a request on a bad network.
    pub(super) fn bad() -> Self {
        Self {
            there: if one_in(12) { hold_up() } else { travel() },
            arrives: !one_in(20),
            survives_a_cut: fastrand::bool(),
            again: one_in(15).then(hold_up),
            back: if one_in(20) { hold_up() } else { travel() },
            answered: !one_in(15),
        }
    }
}

pub(super) fn one_in(times: u32) -> bool {
    fastrand::u32(0..times) == 0
}

/// A whole number of milliseconds, which is what the timers count in.
pub(super) fn millis(range: std::ops::RangeInclusive<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

pub(super) fn travel() -> Duration {
    millis(0..=3)
}

/// How long it takes to connect again.
pub(super) fn reconnection() -> Duration {
    millis(1..=700)
}

/// Longer than any caller waits for an answer, now and then far longer.
pub(super) fn hold_up() -> Duration {
    if one_in(4) {
        millis(1_000..=20_000)
    } else {
        millis(10..=2_000)
    }
}

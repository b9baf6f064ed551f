//! What may go wrong in a run, and what may still be expected of the locks.

use std::time::Duration;

/// The kinds of faults in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Climate {
    /// Messages are lost, late, or delivered twice.
    pub(super) messages: bool,
    /// The connection of an inbox ends several times per second, while the connection for commands stays open.
    pub(super) flaps: bool,
    /// Requests and responses are lost, late, executed twice or out of order. Connections are cut.
    pub(super) network: bool,
    /// The server restarts with its data, or stalls for a while.
    pub(super) restarts: bool,
    /// All data is lost, or one lock is taken from its holder.
    pub(super) data_loss: bool,
    pub(super) clock_ahead: bool,
    pub(super) clock_back: bool,
    /// All processes stall, and the store continues.
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

    /// Returns whether a lease lasts in the store as long as it was given for. Then no other hold is inside before it
    /// ends (P1). Otherwise only tokens protect.
    pub(super) fn keeps_leases(self) -> bool {
        !(self.data_loss || self.clock_ahead)
    }

    /// Returns whether the store never reports that a hold is gone whose lease has not expired.
    pub(super) fn keeps_holds(self) -> bool {
        self.keeps_leases() && !self.pauses
    }

    /// Returns whether tokens grow. This is not promised if the clock from which they come is set back.
    pub(super) fn keeps_order(self) -> bool {
        !self.clock_back
    }

    /// Returns whether every request is answered in time.
    pub(super) fn answers(self) -> bool {
        !(self.network || self.restarts || self.pauses)
    }

    /// Returns whether only the delivery of the messages may delay a waiter, so that it enters within two heartbeats
    /// (P9).
    pub(super) fn is_prompt(self) -> bool {
        self.answers() && self.keeps_leases() && !self.clock_back && !self.kills
    }
}

/// The fate of one request and its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// The time for which the request travels.
    pub(super) there: Duration,
    /// Whether it is executed.
    pub(super) arrives: bool,
    /// Whether it is executed although the connection is cut while it travels.
    pub(super) survives_a_cut: bool,
    /// The time after the first execution at which it is executed once more.
    pub(super) again: Option<Duration>,
    /// The time for which the response travels.
    pub(super) back: Duration,
    /// Whether the response arrives.
    pub(super) answered: bool,
}

impl Fate {
    /// The fate of a request while there are no faults.
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

    /// The fate of a request on a bad network.
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

/// A whole number of milliseconds, which is the resolution of the timers.
pub(super) fn millis(range: std::ops::RangeInclusive<u64>) -> Duration {
    Duration::from_millis(fastrand::u64(range))
}

pub(super) fn travel() -> Duration {
    millis(0..=3)
}

/// The time that it takes to connect again.
pub(super) fn reconnection() -> Duration {
    millis(1..=700)
}

/// A delay that is longer than any caller waits for a response, and now and then much longer.
pub(super) fn hold_up() -> Duration {
    if one_in(4) {
        millis(1_000..=20_000)
    } else {
        millis(10..=2_000)
    }
}

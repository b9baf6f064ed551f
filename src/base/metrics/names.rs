//! The names of the metrics.

/// A metric: its name, and what it says.
#[cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, reason = "they are for the recorder")
)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
}

/// Declares the metrics, and a list of them all.
macro_rules! metrics {
    ($($kind:ident $id:ident $name:literal $says:literal;)+) => {
        $(pub(super) static $id: Metric = Metric { name: $name, says: $says };)+

        /// All of them, with their kinds.
        #[cfg(feature = "metrics")]
        pub(super) static ALL: &[(Kind, &Metric)] = &[$((Kind::$kind, &$id)),+];
    };
}

#[cfg(feature = "metrics")]
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    /// In seconds.
    Histogram,
}

metrics! {
    Counter ACQUISITIONS "reentry_acquisitions_total" "Outermost acquisitions that have ended, by what they came to.";
    Histogram WAIT "reentry_wait_seconds" "How long an outermost acquisition took, by what it came to.";
    Gauge WAITERS "reentry_waiters" "Outermost acquisitions under way.";
    Histogram HOLD "reentry_hold_seconds" "How long a lock was held.";
    Gauge HOLDS "reentry_holds" "Locks that are held.";
    Counter REENTRIES "reentry_reentries_total" "Acquisitions of a lock that an enclosing call held.";
    Counter HANDOFFS "reentry_handoffs_total" "Locks that came to a waiter, by how it learnt of it.";
    Counter RENEWALS "reentry_renewals_total" "Renewals of a lease, by the answer.";
    Counter LOSSES "reentry_losses_total" "Locks that were lost while they were held, by the reason.";
    Counter CONNECTIONS "reentry_connections_total" "Connections that were made, by what they are for.";
    Counter DISCONNECTS "reentry_disconnects_total" "Connections that were lost or given up.";
    Counter SUBSCRIBE_FAILURES "reentry_subscribe_failures_total" "Attempts to subscribe to the messages of other processes that failed.";
    Gauge BACKGROUND "reentry_background_tasks" "Releases under way for which no caller waits any more.";
}

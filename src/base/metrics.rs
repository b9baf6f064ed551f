//! The thirteen metrics that the feature `metrics` records. `docs/operations.md` lists their names and
//! labels.
//!
//! No key is used as a label. The metrics receive the class of a key, which is the label `class` if the builder has a
//! classifier.

#![cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, unused_variables, reason = "nothing is recorded")
)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::options::Mode;

/// The length of the arrays of values that only metrics need. Without the feature, these arrays take no space.
const ROOM: usize = if cfg!(feature = "metrics") { 1 } else { 0 };

/// A metric: its name, and its description for the recorder.
pub(crate) struct Metric {
    kind: MetricKind,
    name: &'static str,
    says: &'static str,
}

enum MetricKind {
    Counter,
    Gauge,
    /// Observations in seconds.
    Histogram,
}

/// Declares the metrics, and a list of them all.
macro_rules! metrics {
    ($($kind:ident $id:ident $name:literal $says:literal;)+) => {
        $(pub(crate) static $id: Metric = Metric { kind: MetricKind::$kind, name: $name, says: $says };)+

        static ALL: &[&Metric] = &[$(&$id),+];
    };
}

metrics! {
    Counter ACQUISITIONS "reentry_acquisitions_total" "Outermost acquisitions that have ended, by outcome.";
    Histogram WAIT "reentry_wait_seconds" "How long an outermost acquisition took, by outcome.";
    Gauge WAITERS "reentry_waiters" "Outermost acquisitions in progress.";
    Histogram HOLD "reentry_hold_seconds" "How long a lock was held.";
    Gauge HOLDS "reentry_holds" "Locks that are held.";
    Counter REENTRIES "reentry_reentries_total" "Acquisitions of a lock that an enclosing call held.";
    Counter HANDOFFS "reentry_handoffs_total" "Locks that were handed to a waiter, by the way in which it was informed.";
    Counter RENEWALS "reentry_renewals_total" "Renewals of a lease, by the response.";
    Counter LOSSES "reentry_losses_total" "Locks that were lost while they were held, by the reason.";
    Counter CONNECTIONS "reentry_connections_total" "Connections that were opened, by purpose.";
    Counter DISCONNECTS "reentry_disconnects_total" "Connections that were lost or given up.";
    Counter SUBSCRIBE_FAILURES "reentry_subscribe_failures_total" "Attempts to subscribe to the messages of other processes that failed.";
    Gauge BACKGROUND "reentry_background_tasks" "Releases in progress for which no caller waits any more.";
}

type Labels<'a> = &'a [(&'static str, &'static str)];

/// Describes each metric to the recorder that the program has installed.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    for Metric { kind, name, says } in ALL {
        use metrics::Unit::{Count, Seconds};
        match kind {
            MetricKind::Counter => metrics::describe_counter!(*name, Count, *says),
            MetricKind::Gauge => metrics::describe_gauge!(*name, Count, *says),
            MetricKind::Histogram => metrics::describe_histogram!(*name, Seconds, *says),
        }
    }
}

/// Counts one, changes a gauge by `value`, or observes `value`, depending on the kind of the metric.
fn record(
    metric: &'static Metric,
    class: Option<&Class>,
    labels: Labels<'_>,
    value: impl FnOnce() -> f64,
) {
    let class = class.and_then(Class::name);
    #[cfg(feature = "metrics")]
    {
        use metrics::{Label, SharedString};
        // The class is the only label whose value is not known in advance.
        let class = class.map(|name| Label::new("class", SharedString::from_shared(name)));
        let labels = labels.iter();
        let labels = labels.map(|&(name, value)| Label::from_static_parts(name, value));
        let labels: Vec<_> = labels.chain(class).collect();
        match metric.kind {
            MetricKind::Counter => metrics::counter!(metric.name, labels).increment(1),
            MetricKind::Gauge => metrics::gauge!(metric.name, labels).increment(value()),
            MetricKind::Histogram => metrics::histogram!(metric.name, labels).record(value()),
        }
    }
}

pub(crate) fn count(metric: &'static Metric, class: Option<&Class>, labels: Labels<'_>) {
    record(metric, class, labels, || 1.0);
}

/// The classifier of a builder, if one was set.
#[derive(Clone, Default)]
pub(crate) struct Classifier(Option<Arc<Classify>>);

type Classify = dyn Fn(&str) -> Arc<str> + Send + Sync;

impl Classifier {
    pub(crate) fn new<S: Into<Arc<str>>>(
        classify: impl Fn(&str) -> S + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(move |key| classify(key).into())))
    }

    /// The class of the key with this name.
    pub(crate) fn class(&self, name: &str) -> Class {
        Class([(); ROOM].map(|()| self.0.as_ref().map(|classify| classify(name))))
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").finish_non_exhaustive()
    }
}

/// The class of a key, if a classifier gave it one.
#[derive(Clone, Default)]
pub(crate) struct Class([Option<Arc<str>>; ROOM]);

impl Class {
    fn name(&self) -> Option<Arc<str>> {
        self.0.first().cloned().flatten()
    }
}

/// The time since its creation. Without the feature, no clock is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch([Instant; ROOM]);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self([(); ROOM].map(|()| Instant::now()))
    }

    fn elapsed(self) -> Duration {
        self.0.first().map_or(Duration::ZERO, Instant::elapsed)
    }
}

/// How a lock was handed to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(crate) enum HandoffPath {
    /// The lock was free when it was requested.
    Request,
    /// Another call graph of this process handed the lock over in memory.
    Memory,
    /// Another process sent a message.
    Message,
    /// A request at a heartbeat found the lock, although no message had arrived.
    Heartbeat,
}

impl HandoffPath {
    /// The label. `None` if nothing was handed off.
    fn label(self) -> Option<&'static str> {
        match self {
            Self::Request => None,
            Self::Memory => Some("memory"),
            Self::Message => Some("message"),
            Self::Heartbeat => Some("heartbeat"),
        }
    }
}

pub(crate) fn acquisition_began(class: &Class, mode: Mode) {
    record(&WAITERS, Some(class), &[("mode", mode.name())], || 1.0);
}

pub(crate) fn acquisition_ended(class: &Class, mode: Mode, outcome: &'static str, since: Instant) {
    let mode = ("mode", mode.name());
    let labels = &[mode, ("outcome", outcome)];
    // With the labels of the increment, because with others it would be another gauge.
    record(&WAITERS, Some(class), &[mode], || -1.0);
    count(&ACQUISITIONS, Some(class), labels);
    let waited = || since.elapsed().as_secs_f64();
    record(&WAIT, Some(class), labels, waited);
}

pub(crate) fn hold_began(class: &Class, via: HandoffPath) {
    record(&HOLDS, Some(class), &[], || 1.0);
    if let Some(via) = via.label() {
        count(&HANDOFFS, Some(class), &[("via", via)]);
    }
}

pub(crate) fn hold_ended(class: &Class, mode: Mode, since: Stopwatch) {
    record(&HOLDS, Some(class), &[], || -1.0);
    let held = || since.elapsed().as_secs_f64();
    record(&HOLD, Some(class), &[("mode", mode.name())], held);
}

/// Records a change in the number of releases that run in the background.
pub(crate) fn change_background_tasks(change_by: f64) {
    record(&BACKGROUND, None, &[], || change_by);
}

//! Over the facade `metrics`, for whichever recorder the program has installed.

use std::{fmt, sync::Arc, time::Duration};

use metrics::{Label, SharedString, Unit};

use super::names::{ALL, Kind, Metric};
use crate::base::key::LockKey;

type Labels<'a> = &'a [(&'static str, &'static str)];

type Classify = dyn Fn(&str) -> Arc<str> + Send + Sync;

/// What a key is counted under, as the classifier of the builder says.
#[derive(Clone)]
pub(crate) struct Class(Arc<Classify>);

impl Class {
    pub(crate) fn new<S: Into<Arc<str>>>(
        classify: impl Fn(&str) -> S + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |key| classify(key).into()))
    }

    pub(crate) fn of(&self, key: &str) -> Arc<str> {
        (self.0)(key)
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Class").finish_non_exhaustive()
    }
}

/// Says to the recorder what each metric means.
pub(crate) fn describe() {
    for (kind, Metric { name, says }) in ALL {
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, Unit::Count, *says),
            Kind::Gauge => metrics::describe_gauge!(*name, Unit::Count, *says),
            Kind::Histogram => metrics::describe_histogram!(*name, Unit::Seconds, *says),
        }
    }
}

pub(super) fn count(metric: &'static Metric, key: Option<&LockKey>, more: Labels<'_>) {
    metrics::counter!(metric.name, labels(key, more)).increment(1);
}

pub(super) fn change(metric: &'static Metric, key: Option<&LockKey>, by: f64, more: Labels<'_>) {
    metrics::gauge!(metric.name, labels(key, more)).increment(by);
}

pub(super) fn observe(
    metric: &'static Metric,
    key: Option<&LockKey>,
    span: impl FnOnce() -> Duration,
    more: Labels<'_>,
) {
    metrics::histogram!(metric.name, labels(key, more)).record(span());
}

fn labels(key: Option<&LockKey>, more: Labels<'_>) -> Vec<Label> {
    let class = key.and_then(LockKey::class);
    let class =
        class.map(|class| Label::new("class", SharedString::from_shared(Arc::clone(class))));
    let more = more
        .iter()
        .map(|&(name, value)| Label::from_static_parts(name, value));
    more.chain(class).collect()
}

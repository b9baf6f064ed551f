//! Nothing is counted without the feature `metrics`.

use std::time::Duration;

use super::names::Metric;
use crate::base::key::LockKey;

type Labels<'a> = &'a [(&'static str, &'static str)];

pub(crate) fn describe() {}

pub(super) fn count(_: &'static Metric, _: Option<&LockKey>, _: Labels<'_>) {}

pub(super) fn change(_: &'static Metric, _: Option<&LockKey>, _: f64, _: Labels<'_>) {}

pub(super) fn observe(
    _: &'static Metric,
    _: Option<&LockKey>,
    _: impl FnOnce() -> Duration,
    _: Labels<'_>,
) {
}

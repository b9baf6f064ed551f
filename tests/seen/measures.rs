//! The measurements of one test.

use std::cell::RefCell;
use std::collections::BTreeMap;

use metrics::{LocalRecorderGuard, set_default_local_recorder};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// The metrics of this thread, where the single-threaded runtime of a test runs all its tasks.
pub(crate) struct Measures {
    snapshotter: Snapshotter,
    /// A snapshot resets the values.
    totals: RefCell<Totals>,
    _recording: LocalRecorderGuard<'static>,
}

/// All measurements, as `name{label=value,…}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// Counters, and the levels of gauges.
    numbers: BTreeMap<String, f64>,
    histograms: BTreeMap<String, Vec<f64>>,
}

impl Measures {
    pub(crate) fn of_this_test() -> Self {
        let recorder: &'static _ = Box::leak(Box::new(DebuggingRecorder::new()));
        Self {
            snapshotter: recorder.snapshotter(),
            totals: RefCell::default(),
            _recording: set_default_local_recorder(recorder),
        }
    }

    /// The values up to now.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals.borrow_mut();
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let mut labels: Vec<_> = key.labels().collect();
            labels.sort();
            let labels = labels.iter();
            let labels: Vec<_> = labels
                .map(|it| format!("{}={}", it.key(), it.value()))
                .collect();
            let name = format!("{}{{{}}}", key.name(), labels.join(","));
            match value {
                #[expect(clippy::cast_precision_loss, reason = "the counts are small")]
                DebugValue::Counter(count) => totals.add(name, count as f64),
                DebugValue::Gauge(change) => totals.add(name, change.into_inner()),
                DebugValue::Histogram(values) => {
                    let values = values.into_iter().map(|value| value.into_inner());
                    totals.histograms.entry(name).or_default().extend(values);
                }
            }
        }
        totals.clone()
    }
}

impl Totals {
    fn add(&mut self, name: String, number: f64) {
        *self.numbers.entry(name).or_default() += number;
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Returns whether no name contains this.
    pub(crate) fn lacks(&self, part: &str) -> bool {
        let names = self.numbers.keys().chain(self.histograms.keys());
        names.into_iter().all(|name| !name.contains(part))
    }

    /// # Panics
    ///
    /// Panics if this counter, or gauge, has another value.
    pub(crate) fn assert(&self, name: &str, expected: f64) {
        let number = self.numbers.get(name).copied().unwrap_or(f64::NAN);
        assert!(
            (number - expected).abs() < 1e-9,
            "{name}: {number} in {self:#?}"
        );
    }

    /// The values of a histogram.
    pub(crate) fn values(&self, name: &str) -> &[f64] {
        self.histograms.get(name).map_or(&[], Vec::as_slice)
    }
}

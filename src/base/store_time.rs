//! The clock of the store.

use std::time::Duration;

/// A time on the clock of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StoreTime {
    pub(crate) micros: u64,
}

impl StoreTime {
    /// The span since an earlier time. `None` if that is the later one, which only a clock that was set back explains.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        self.micros
            .checked_sub(earlier.micros)
            .map(Duration::from_micros)
    }

    /// The time a span later.
    pub(crate) fn after(self, span: Duration) -> Self {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let micros = self.micros.saturating_add(span);
        Self { micros }
    }
}

//! Whether a lock has one holder or several.

/// How a hold has its lock: alone, or together with other readers.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// use reentry::{Locks, Mode};
///
/// let locks = Locks::in_memory();
/// let guard = locks.lock("report:2026").acquire().await?;
/// assert_eq!(guard.held().mode(), Mode::Exclusive);
/// guard.held().downgrade().await?;
/// assert_eq!(guard.held().mode(), Mode::Shared);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// No other call graph has it, in whichever mode: a writer.
    #[default]
    Exclusive,
    /// Any number of call graphs have it together, and none has it exclusively: a reader.
    Shared,
}

impl Mode {
    /// In spans and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// Who goes first where readers and writers wait for one lock.
///
/// # Examples
///
/// ```
/// use reentry::{Fairness, Locks};
///
/// let builder = Locks::builder().url("memory:").fairness(Fairness::PreferWriters);
/// # assert!(builder.build_lazy().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fairness {
    /// First come, first served: a reader behind a writer that waits is not let in before it.
    #[default]
    Fifo,
    /// Readers go before all writers that wait. While readers keep coming, a writer may wait for ever.
    PreferReaders,
    /// Writers go before all readers that wait. While writers keep coming, a reader may wait for ever.
    PreferWriters,
}

impl Fairness {
    /// Whether those who want the lock in this mode go before the others.
    pub(crate) fn prefers(self, mode: Mode) -> bool {
        matches!(
            (self, mode),
            (Self::PreferReaders, Mode::Shared) | (Self::PreferWriters, Mode::Exclusive)
        )
    }
}

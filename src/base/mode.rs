//! The mode of a hold, and the order of readers and writers.

/// The mode of a hold: exclusive, or shared with other readers.
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
    /// No other call graph has the lock in any mode: the holder is a writer.
    #[default]
    Exclusive,
    /// Any number of call graphs may share the lock, and none has it exclusively: the holder is a reader.
    Shared,
}

impl Mode {
    /// The name in spans and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// The order in which readers and writers get a lock that they wait for.
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
    /// First come, first served: no reader overtakes a writer that waits.
    #[default]
    Fifo,
    /// Readers overtake all writers that wait. While readers keep coming, a writer may wait forever.
    PreferReaders,
    /// Writers overtake all readers that wait. While writers keep coming, a reader may wait forever.
    PreferWriters,
}

impl Fairness {
    /// Whether requests in this mode overtake the others.
    pub(crate) fn prefers(self, mode: Mode) -> bool {
        matches!(
            (self, mode),
            (Self::PreferReaders, Mode::Shared) | (Self::PreferWriters, Mode::Exclusive)
        )
    }
}

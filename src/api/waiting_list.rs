//! The processes that wait for one lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::api::engine::Engine;
use crate::api::inspect::DESCRIBED_WITHIN;
use crate::api::locks::{Locks, on};
use crate::base::error::LockError;
use crate::base::id::HoldId;
use crate::base::option_types::Mode;
use crate::base::process::{Process, ProcessId};
use crate::store::{Queue, Queued, QueuedProcess, StoreTime};

/// The default number of processes on a page.
const PAGE: usize = 50;

impl Locks {
    /// Lists the processes that wait for a lock, page by page, in the order in which they are served. Nothing is sent
    /// before the first page.
    ///
    /// Each process has one place in the queue, regardless of the number of its waiters. [`inspect`](Self::inspect)
    /// counts the waiters of this process. A process that waits for a holder of the same process has no place yet. A
    /// process that arrives or leaves between two pages may be shown or not. No process is shown twice, unless it has
    /// left and returned.
    ///
    /// A user with an ACL also needs `+zcount`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let _guard = locks.lock("order:42").await?;
    /// let other = locks.clone();
    /// let waiting = tokio::spawn(async move { other.lock("order:42").await.map(drop) });
    /// tokio::time::sleep(Duration::from_secs(3)).await; // more than a heartbeat
    ///
    /// let page = locks.list_waiting("order:42").next_page().await?.expect("a page");
    /// assert_eq!(page.len(), 1);
    /// assert!(page[0].alive_for.is_some());
    /// # waiting.abort();
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_waiting(&self, key: impl AsRef<str>) -> WaitingList {
        WaitingList {
            engine: self.shared_engine(),
            key: key.as_ref().to_owned(),
            page: PAGE,
            at: At::Behind(None),
            places: 0,
        }
    }
}

/// A list of the processes that wait for a lock, read page by page. See [`Locks::list_waiting`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let mut waiting = locks.list_waiting("order:42");
/// while let Some(page) = waiting.next_page().await? {
///     for process in page {
///         println!("{} waits for {:?}", process.id, process.holds);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a list sends nothing until a page is requested"]
pub struct WaitingList {
    engine: Arc<Engine>,
    key: String,
    page: usize,
    at: At,
    places: u64,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// The page begins after the process with this order. Without a value, it begins at the head of the queue.
    Behind(Option<u64>),
    End,
}

/// A process that waits for a lock, or more exactly one [`Locks`] of that process.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let page = locks.list_waiting("order:42").next_page().await?.unwrap_or_default();
/// let dead = page.iter().filter(|process| process.alive_for.is_none());
/// assert_eq!(dead.count(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingProcess {
    /// The id of the [`Locks`] in the queue, which is a UUID of its own. If another program has written the place, this
    /// is the text that it wrote, with U+FFFD for bytes that are not UTF-8.
    pub id: String,
    /// The process, as it described itself. `None` if the store does not know it.
    pub process: Option<Process>,
    /// The holds that acquire the lock when the turn of the process comes: one hold, or the holds of readers that enter
    /// together.
    pub holds: Vec<HoldId>,
    /// The mode in which the holds will have the lock.
    pub mode: Mode,
    /// The lease that the holds will get.
    pub lease: Duration,
    /// How long the process counts as alive if it sends no further request. `None` if it has died, or if its place
    /// cannot be read. Then the process is skipped, and removed when its turn comes.
    pub alive_for: Option<Duration>,
}

impl WaitingList {
    /// Sets the maximum number of processes on a page (default: 50). Values below 1 count as 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # let locks = reentry::Locks::in_memory();
    /// let waiting = locks.list_waiting("order:42").page(10);
    /// # drop(waiting);
    /// ```
    pub fn page(mut self, processes: usize) -> Self {
        self.page = processes.max(1);
        self
    }

    /// Returns the next page, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`]. [`LockError::Unavailable`] if the store does not respond, and [`LockError::Misuse`] if
    /// the user lacks a permission. The next call requests the same page again. [`LockError::Closed`] after
    /// [`close`](Locks::close).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. The next call requests the same page again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// assert!(locks.list_waiting("order:42").next_page().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_page(&mut self) -> Result<Option<Vec<WaitingProcess>>, LockError> {
        let At::Behind(after) = self.at else {
            return Ok(None);
        };
        let key = self.engine.open_key(&self.key)?;
        let queued = self.engine.store().ask(Queue {
            key: key.clone(),
            after,
            count: self.page,
        });
        let Queued {
            at,
            places,
            processes,
        } = queued.await.map_err(on(&key))?;
        self.places = places;
        self.at = match processes.last() {
            Some(last) if processes.len() == self.page => At::Behind(Some(last.order)),
            _ => At::End,
        };
        let is_over = processes.is_empty();
        let queued = processes.into_iter();
        let mut page: Vec<_> = queued
            .map(|queued| WaitingProcess::new(queued, at))
            .collect();
        let id = |it: &WaitingProcess| Uuid::try_parse(&it.id).ok().map(ProcessId::of);
        let ids = page.iter().filter_map(id);
        let known = self.engine.store().processes(ids, DESCRIBED_WITHIN).await;
        for waiting in &mut page {
            waiting.process = id(waiting).and_then(|id| known.get(id)).cloned();
        }
        Ok((!is_over).then_some(page))
    }

    /// Returns the number of processes in the queue when the last page was read, including dead processes. Returns 0
    /// before the first page.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let mut waiting = locks.list_waiting("order:42");
    /// waiting.next_page().await?;
    /// assert_eq!(waiting.places(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn places(&self) -> u64 {
        self.places
    }
}

impl WaitingProcess {
    fn new(queued: QueuedProcess, at: StoreTime) -> Self {
        let id = String::from_utf8_lossy(&queued.inbox);
        let id = id.strip_prefix("reentry:inbox:").unwrap_or(&id);
        let alive_for = queued.deadline.and_then(|deadline| deadline.since(at));
        Self {
            id: id.to_owned(),
            process: None,
            holds: queued.holds,
            mode: queued.mode,
            lease: queued.grant,
            alive_for: alive_for.filter(|left| !left.is_zero()),
        }
    }
}

impl fmt::Debug for WaitingList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitingList")
            .field("key", &self.key)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

//! What is seen of one lock: its holders.

use std::time::Duration;

use tokio::join;

use crate::api::engine::Engine;
use crate::api::locks::{Locks, on};
use crate::base::error::LockError;
use crate::base::id::{FencingToken, HoldId, OwnerId};
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::base::process::Process;
use crate::store::{SeenHolder, Snapshot};

/// How long a query waits for the descriptions of the processes.
pub(super) const DESCRIBED_WITHIN: Duration = Duration::from_secs(1);

impl Locks {
    /// Shows the present holder and the waiters of the lock; `None` if it is free.
    ///
    /// The server looks at every process that waits: if 1,000 wait, it does nothing else for 2 ms or more.
    /// [`list`](Self::list) and [`queue`](Self::queue) show a lock at a bounded cost.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`], or [`LockError::Store`] if the store does not answer, or the key holds
    /// something other than a lock.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let locks = reentry::Locks::in_memory();
    /// let guard = locks.lock("order:42").await?;
    /// let holders = locks.inspect("order:42").await?.map(|info| info.holders);
    /// assert_eq!(holders.map(|holders| holders[0].depth), Some(1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: impl AsRef<str>) -> Result<Option<LockInfo>, LockError> {
        let key = self.engine().open_key(key.as_ref())?;
        let snapshot = self.engine().look(&key).await.map_err(on(&key))?;
        let Some(snapshot) = snapshot else {
            return Ok(None);
        };
        let mut info = LockInfo::new(snapshot, self.engine().waiters(&key));
        describe_all(self.engine(), &key, &mut info.holders).await;
        Ok(Some(info))
    }
}

/// The state of a lock in the store at one moment; see [`Locks::inspect`](crate::Locks::inspect).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("order:42").acquire().await?;
/// let info = locks.inspect("order:42").await?.expect("it is held");
/// assert_eq!(info.token, Some(guard.held().fencing_token()));
/// assert_eq!((info.holders.len(), info.waiters), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The holders: one writer, or the readers. Another program may have written several. The first 1,000 are shown.
    pub holders: Vec<Holder>,
    /// Whether the holders share the lock.
    pub mode: Mode,
    /// How long the lease lasts unless it is renewed; with readers, the longest of their leases. `None` for a lock
    /// without an expiry, which another program has taken.
    pub remaining: Option<Duration>,
    /// The last token that the store gave to the present hold; `None` if another program holds the lock, or if the
    /// store no longer has the token.
    ///
    /// It is the token of the holder, unless call graphs of one process share the hold, with
    /// [`HandOff::InProcess`](crate::HandOff::InProcess). Then it is the token of the first of them, and the call
    /// graphs that continue the hold have greater tokens. So use it to distinguish holds; for a resource, use
    /// [`Held::fencing_token`](crate::Held::fencing_token).
    pub token: Option<FencingToken>,
    /// How long the lock has been held, on the server's clock. With readers, the time counts from the first of them, or
    /// from the writer that is a reader now. `None` without a token, and if the clock was set back.
    pub held_for: Option<Duration>,
    /// The number of callers in this process that wait for the lock through this [`Locks`](crate::Locks) and its
    /// clones.
    pub waiters: usize,
    /// The number of processes in the queue of the lock. This process may be among them. A process whose waiters wait
    /// for a holder of the same process enters the queue within a heartbeat.
    pub waiting_processes: u64,
}

/// A holder: one field of the hash of a lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let guard = locks.lock("order:42").acquire().await?;
/// let info = locks.inspect("order:42").await?.expect("it is held");
/// let [holder] = &info.holders[..] else { panic!("one call has it") };
/// assert_eq!(holder.owner, Some(guard.held().owner()));
/// assert_eq!(holder.depth, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name of the field: a [`HoldId`](crate::HoldId) if this crate has written it. Bytes that are not UTF-8 are
    /// shown as U+FFFD.
    pub hold_id: String,
    /// The call graph of the holder, if the field has the form `<uuid>:<integer>`.
    pub owner: Option<OwnerId>,
    /// The process of the holder, as it has described itself; `None` if the store does not know it, as for another program.
    pub process: Option<Process>,
    /// The label of the hold, if it has one and has lasted a heartbeat; see [`LockRequest::label`](crate::LockRequest::label).
    /// `None` in a [list](Locks::list).
    pub label: Option<String>,
    /// The number of nested entries of the hold. It is 1 if only [spawned work](crate::FutureExt::in_current_call)
    /// keeps the hold, and 0 if another program has written something that is not a number of entries.
    pub depth: u64,
    /// How long the lease of this reader lasts unless it is renewed; `None` if the lock is held exclusively.
    pub remaining: Option<Duration>,
}

impl LockInfo {
    /// The processes of the holders are not known yet.
    pub(crate) fn new(snapshot: Snapshot, waiters: usize) -> Self {
        let holder = |seen: SeenHolder| {
            let hold_id = String::from_utf8_lossy(&seen.field).into_owned();
            let owner = OwnerId::of_field(&hold_id);
            Holder {
                hold_id,
                owner,
                process: None,
                label: None,
                depth: seen.depth,
                remaining: seen.remaining,
            }
        };
        let held_for = snapshot.held_for();
        Self {
            held_for,
            holders: snapshot.holders.into_iter().map(holder).collect(),
            mode: snapshot.mode,
            remaining: snapshot.remaining,
            token: snapshot.token,
            waiters,
            waiting_processes: snapshot.waiting,
        }
    }
}

/// Looks up the processes of holders.
pub(super) async fn describe(engine: &Engine, holders: impl IntoIterator<Item = &mut Holder>) {
    let holders = holders.into_iter();
    let mut holders: Vec<_> = holders
        .filter_map(|holder| Some((holder.owner?.process(), holder)))
        .collect();
    let ids = holders.iter().map(|(id, _)| *id);
    let processes = engine.store().processes(ids, DESCRIBED_WITHIN).await;
    for (id, holder) in &mut holders {
        holder.process = processes.get(*id).cloned();
    }
}

/// Looks up the processes and the labels of the holders of a lock.
pub(super) async fn describe_all(engine: &Engine, key: &LockKey, holders: &mut [Holder]) {
    let id = |holder: &Holder| holder.hold_id.parse::<HoldId>().ok();
    let holds: Vec<_> = holders.iter().filter_map(id).collect();
    let labels = engine.store().labels(key, holds, DESCRIBED_WITHIN);
    let (mut labels, ()) = join!(labels, describe(engine, &mut *holders));
    for holder in holders {
        holder.label = id(holder).and_then(|hold| labels.remove(&hold));
    }
}

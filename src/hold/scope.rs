//! The chain of the locks that the enclosing calls hold, stored in a tokio task-local.

use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::{task, task_local};

use crate::base::error::LockError;
use crate::base::id::{Owner, OwnerId};
use crate::base::key::LockKey;
use crate::base::process::ProcessId;
use crate::base::sync::Mutex;
use crate::hold::core::Core;
use crate::hold::held::Held;
use crate::hold::hold::{CallGraph, Hold};

task_local! {
    pub(super) static CHAIN: Arc<Frame>;
}

/// The locks of one acquisition, usually one.
pub(crate) type HeldLocks = SmallVec<[Held; 1]>;

/// One entry of the chain, linked to the enclosing one: the locks that a body runs under, beginning with the innermost.
#[derive(Debug)]
pub(crate) struct Frame {
    locks: HeldLocks,
    polled: Mutex<PollContext>,
}

/// Where a body was polled last. The chain is what encloses the poll, not what enclosed the caller that created the
/// future. A future may be created, or polled for a while, in one call graph, and then be moved to another one.
#[derive(Debug, Default)]
struct PollContext {
    /// The task that polls the body. A `LocalSet` inside the body runs other tasks on the same thread, under the same
    /// thread-local. Those tasks are not descendants of the holder.
    task: Option<task::Id>,
    /// The enclosing frame.
    outer: Option<Arc<Frame>>,
}

impl Frame {
    pub(super) fn new(locks: HeldLocks) -> Arc<Self> {
        Arc::new(Self {
            locks,
            polled: Mutex::default(),
        })
    }

    pub(super) fn locks(&self) -> &[Held] {
        &self.locks
    }

    /// Records that the code that is running now polls the body of this frame.
    pub(super) fn begin_poll(&self) {
        // Read before the mutex is locked, because this locks the mutex of the frame around it.
        let here = PollContext {
            task: task::try_id(),
            outer: innermost(),
        };
        // Dropped after the mutex was released, because it may be the last that has its holds.
        let _before = mem::replace(&mut *self.polled.lock(), here);
    }

    /// The loss that must end what is done inside the frame: of several, that of the outermost lock.
    pub(crate) fn abort_error(&self) -> Option<LockError> {
        let mut outermost = self.locks.iter().rev();
        outermost.find_map(|held| held.hold.abort_error())
    }

    /// Runs `work` inside the frame.
    pub(crate) fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        self.begin_poll();
        CHAIN.sync_scope(Arc::clone(self), work)
    }
}

/// Returns the innermost frame of the present call graph.
fn innermost() -> Option<Arc<Frame>> {
    let frame = CHAIN.try_with(Arc::clone).ok()?;
    // Another task on the same thread, of a `LocalSet` inside the body, is not enclosed.
    let is_here = frame.polled.lock().task == task::try_id();
    is_here.then_some(frame)
}

/// Returns the frames of the present call graph, from the innermost outwards.
pub(super) fn frames() -> impl Iterator<Item = Arc<Frame>> {
    let outer = |frame: &Arc<Frame>| frame.polled.lock().outer.clone();
    std::iter::successors(innermost(), outer)
}

/// Returns the first lock, from the innermost outwards, that `matches` and is still held. A body that was
/// moved out of an enclosing one may outlive the hold of that one.
fn find(matches: impl Fn(&Held) -> bool) -> Option<Held> {
    frames().find_map(|frame| {
        let mut locks = frame.locks.iter();
        let found = locks.find(|held| matches(held) && held.depth() > 0);
        found.cloned()
    })
}

/// Returns the holds of one `Locks` that enclose the calling code, each once, from the innermost outwards, and at most
/// `max`.
pub(super) fn enclosing_holds(core: &Arc<Core>, max: usize) -> Vec<Arc<Hold>> {
    let mut holds: Vec<Arc<Hold>> = Vec::new();
    for frame in frames() {
        let locks = frame.locks.iter();
        for Held { hold, .. } in locks.filter(|held| held.belongs_to(core) && held.depth() > 0) {
            if holds.len() == max {
                return holds;
            }
            // Several keys may be held under one id.
            if !holds.iter().any(|known| Arc::ptr_eq(known, hold)) {
                holds.push(Arc::clone(hold));
            }
        }
    }
    holds
}

/// Returns whether a loss must end a body that encloses the calling code.
pub(super) fn must_abort() -> bool {
    let ends = |held: &Held| held.hold.aborts_on_loss() && held.is_lost();
    frames().any(|frame| frame.locks.iter().any(ends))
}

/// Returns the hold of `key` that an enclosing call has acquired through the same `Locks`.
pub(crate) fn enclosing_hold(core: &Arc<Core>, key: &LockKey) -> Option<Arc<Hold>> {
    find(|held| held.belongs_to(core) && held.hold.key() == key).map(|held| held.hold)
}

/// Returns the present call graph, or a new one if it holds no lock yet.
pub(crate) fn call_graph() -> CallGraph {
    let graph = innermost().and_then(|frame| Some(frame.locks.first()?.hold.graph()));
    // A fork inside a body copies the call graph with the counter of its holds, so both processes would make the same
    // ids.
    let graph = graph.filter(|graph| graph.owner().id().process() == ProcessId::this());
    graph.unwrap_or_else(|| CallGraph::New(Owner::new()))
}

/// Returns the innermost lock named `key`, without the prefix, that the calling code runs under, on any
/// [`Locks`](crate::Locks).
///
/// Returns `None` outside every body that holds such a lock. It also returns `None` in tasks that such a body has
/// spawned with `tokio::spawn`, because they inherit nothing. [`spawn`](crate::spawn) and
/// [`in_current_call`](crate::FutureExt::in_current_call) inherit the locks.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let token = locks
///     .with_lock("order:42", async { reentry::held("order:42").map(|held| held.fencing_token()) })
///     .await?;
/// assert!(token.is_some());
/// assert!(reentry::held("order:42").is_none());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn held(key: impl AsRef<str>) -> Option<Held> {
    let key = key.as_ref();
    find(|held| held.key() == key)
}

/// Returns the innermost lock that the calling code runs under, on any [`Locks`](crate::Locks). If several locks were
/// acquired together, it returns the first of them.
///
/// Returns `None` where [`held`] does so for every key.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// let key = locks
///     .with_lock("order:42", async { reentry::current().map(|held| held.key().to_owned()) })
///     .await?;
/// assert_eq!(key.as_deref(), Some("order:42"));
/// assert!(reentry::current().is_none());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current() -> Option<Held> {
    find(|_| true)
}

/// Returns the identity of the call graph that the calling code belongs to, or `None` while it holds no lock.
#[must_use]
pub fn current_owner() -> Option<OwnerId> {
    innermost().and_then(|frame| Some(frame.locks.first()?.hold.owner()))
}

//! The chain of the locks that the enclosing calls hold, stored in a tokio task-local.

use std::sync::{Arc, Weak};

use tokio::{task, task_local};

use crate::base::id::{Owner, OwnerId};
use crate::base::key::LockKey;
use crate::base::process::ProcessId;
use crate::base::sync::Mutex;
use crate::hold::held::Held;
use crate::hold::hold::{CallGraph, Hold, Holds};
use crate::hold::renewals::RenewalSchedule;

task_local! {
    pub(super) static CHAIN: Arc<Frame>;
}

/// One entry of the chain, linked to the enclosing one.
#[derive(Debug)]
pub(super) struct Frame {
    /// The `Locks` that the hold belongs to.
    locks: LocksId,
    /// The holds of one acquisition.
    holds: Holds,
    place: Mutex<FramePlace>,
}

/// The place where a body is polled. The chain is what encloses the poll, not what enclosed the caller that created the
/// future. A future may be created, or polled for a while, in one call graph, and then be moved to another one.
#[derive(Debug, Default)]
struct FramePlace {
    /// The task that polls the body. A `LocalSet` inside the body runs other tasks on the same thread, under the same
    /// thread-local. Those tasks are not descendants of the holder.
    task: Option<task::Id>,
    /// The enclosing frame.
    outer: Option<Arc<Frame>>,
}

impl FramePlace {
    /// The chain of the code that is running now.
    fn here() -> Self {
        Self {
            task: task::try_id(),
            outer: innermost(),
        }
    }
}

impl Frame {
    /// A frame that has no place yet.
    pub(super) fn new(locks: &LocksId, holds: &[Arc<Hold>]) -> Arc<Self> {
        Arc::new(Self {
            locks: locks.clone(),
            holds: holds.into(),
            place: Mutex::default(),
        })
    }

    pub(super) fn holds(&self) -> &[Arc<Hold>] {
        &self.holds
    }

    /// The schedule that renews the hold. `None` only if the hold has ended.
    pub(super) fn renewals(&self) -> Option<Arc<RenewalSchedule>> {
        self.locks.0.upgrade()
    }

    /// Copies the frame into another chain, inside `outer`.
    pub(super) fn copy(&self, outer: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self {
            locks: self.locks.clone(),
            holds: self.holds.clone(),
            place: Mutex::new(FramePlace { task: None, outer }),
        })
    }

    /// Records that the code that is running now is inside this frame, and also inside `outermost`.
    pub(super) fn place_here(&self, outermost: &Self) {
        let FramePlace { task, outer } = FramePlace::here();
        self.place.lock().task = task;
        outermost.place.lock().outer = outer;
    }
}

/// The identity of one `Locks` and its clones, which is the address of their renewals. It keeps nothing alive, because
/// a frame may outlive its hold.
#[derive(Clone, Debug)]
pub(crate) struct LocksId(Weak<RenewalSchedule>);

impl LocksId {
    pub(crate) fn of(renewals: &Arc<RenewalSchedule>) -> Self {
        Self(Arc::downgrade(renewals))
    }

    /// Returns a hold of this `Locks`, as code inside it sees it.
    pub(crate) fn held(&self, hold: &Arc<Hold>) -> Held {
        Held::new(hold, self.0.clone())
    }
}

impl PartialEq for LocksId {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

/// Returns the innermost frame of the present call graph.
fn innermost() -> Option<Arc<Frame>> {
    let frame = CHAIN.try_with(Arc::clone).ok()?;
    let here = frame.place.lock().task == task::try_id();
    here.then_some(frame)
}

/// Returns the frames of the present call graph, from the innermost outwards.
pub(super) fn frames() -> impl Iterator<Item = Arc<Frame>> {
    let outer = |frame: &Arc<Frame>| frame.place.lock().outer.clone();
    std::iter::successors(innermost(), outer)
}

/// Returns the first hold, from the innermost outwards, that satisfies `wanted` and is still held. A body that was
/// moved out of an enclosing one may outlive the hold of that one.
fn find(wanted: impl Fn(&LocksId, &Hold) -> bool) -> Option<(Arc<Frame>, Arc<Hold>)> {
    frames().find_map(|frame| {
        let mut holds = frame.holds().iter();
        let found = holds.find(|hold| wanted(&frame.locks, hold) && hold.depth() > 0);
        let found = Arc::clone(found?);
        Some((frame, found))
    })
}

/// Returns the holds of one `Locks` that enclose the calling code, each once, from the innermost outwards, and at most
/// `most`.
pub(super) fn enclosing_holds(locks: &LocksId, most: usize) -> Vec<Arc<Hold>> {
    let mut holds: Vec<Arc<Hold>> = Vec::new();
    for frame in frames().filter(|frame| frame.locks == *locks) {
        for hold in frame.holds().iter().filter(|hold| hold.depth() > 0) {
            if holds.len() == most {
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

/// Whether a loss must end a body that encloses the calling code.
pub(super) fn must_abort() -> bool {
    let ends = |hold: &Arc<Hold>| hold.must_abort().is_some();
    frames().any(|frame| frame.holds().iter().any(ends))
}

/// Returns the hold of `key` that an enclosing call has acquired through the same `Locks`.
pub(crate) fn enclosing(locks: &LocksId, key: &LockKey) -> Option<Arc<Hold>> {
    find(|of, hold| of == locks && hold.key() == key).map(|(_, hold)| hold)
}

/// Returns the present call graph, or a new one if it holds no lock yet.
pub(crate) fn call_graph() -> CallGraph {
    let graph = innermost().and_then(|frame| Some(frame.holds().first()?.graph()));
    // A fork inside a body copies the call graph with the counter of its holds, so both processes would make the same
    // ids.
    let graph = graph.filter(|graph| graph.owner().id().process() == ProcessId::this());
    graph.unwrap_or_else(|| CallGraph::New(Owner::new()))
}

/// Returns the innermost lock named `key` that the calling code runs under, on any [`Locks`](crate::Locks).
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
    let (frame, hold) = find(|_, hold| hold.key().name() == key)?;
    Some(frame.locks.held(&hold))
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
    let (frame, hold) = find(|_, _| true)?;
    Some(frame.locks.held(&hold))
}

/// Returns the identity of the call graph that the calling code belongs to, or `None` while it holds no lock.
#[must_use]
pub fn current_owner() -> Option<OwnerId> {
    innermost().and_then(|frame| Some(frame.holds().first()?.owner()))
}

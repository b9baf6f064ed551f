//! The chain: which locks the enclosing calls hold, carried in a tokio task-local.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project::pin_project;
use tokio::{
    task::{self, futures::TaskLocalFuture},
    task_local,
};

use crate::{
    held::Held,
    hold::Hold,
    id::{Owner, OwnerId},
    key::LockKey,
    mutex::Mutex,
};

task_local! {
    static CHAIN: Arc<Frame>;
}

/// One entry of the chain, linked to the one around it.
#[derive(Debug)]
struct Frame {
    /// Which `Locks` the hold belongs to.
    locks: LocksId,
    hold: Arc<Hold>,
    /// The task that polls the body now. A `LocalSet` inside the body runs other tasks on the
    /// same thread, under the same thread-local: they are no descendants of the holder.
    polled_in: Mutex<Option<task::Id>>,
    outer: Option<Arc<Frame>>,
}

/// Tells one `Locks` and its clones from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocksId(pub(crate) u64);

/// The innermost frame of the present call graph.
fn innermost() -> Option<Arc<Frame>> {
    let frame = CHAIN.try_with(Arc::clone).ok()?;
    let here = *frame.polled_in.lock() == task::try_id();
    here.then_some(frame)
}

/// The first frame, from the innermost outwards, that satisfies `wanted` and is still held: a body
/// that was moved out of an enclosing one may outlive the hold of that one.
fn find(wanted: impl Fn(&Frame) -> bool) -> Option<Arc<Hold>> {
    let innermost = innermost()?;
    std::iter::successors(Some(&*innermost), |frame| frame.outer.as_deref())
        .find(|frame| wanted(frame) && frame.hold.depth() > 0)
        .map(|frame| Arc::clone(&frame.hold))
}

/// The hold of `key` that an enclosing call has taken through the same `Locks`.
pub(crate) fn enclosing(locks: LocksId, key: &LockKey) -> Option<Arc<Hold>> {
    find(|frame| frame.locks == locks && frame.hold.key() == key)
}

/// The hold with the name `key` that an enclosing call has taken through the same `Locks`.
pub(crate) fn held_in(locks: LocksId, key: &str) -> Option<Held> {
    find(|frame| frame.locks == locks && frame.hold.key().name() == key)
        .map(|hold| Held::new(&hold))
}

/// The owner of the present call graph, or a new one where it holds no lock yet.
pub(crate) fn owner() -> Arc<Owner> {
    innermost().map_or_else(Owner::new, |frame| Arc::clone(frame.hold.owner()))
}

/// The innermost lock named `key` that the calling code runs under, on any [`Locks`](crate::Locks).
///
/// `None` outside of every body that holds such a lock, and in tasks that were spawned from one:
/// `tokio::spawn` inherits nothing.
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
    find(|frame| frame.hold.key().name() == key).map(|hold| Held::new(&hold))
}

/// The identity of the call graph that the calling code belongs to; `None` while it holds no lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reentry::LockError> {
/// let locks = reentry::Locks::in_memory();
/// assert_eq!(reentry::current_owner(), None);
/// let (outer, inner) = locks
///     .with_lock("order:42", async {
///         let inner = locks.with_lock("stock:7", async { reentry::current_owner() }).await;
///         (reentry::current_owner(), inner)
///     })
///     .await?;
/// assert!(outer.is_some());
/// assert_eq!(outer, inner?);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn current_owner() -> Option<OwnerId> {
    innermost().map(|frame| frame.hold.owner().id())
}

/// A body that runs under a hold.
#[pin_project]
pub(crate) struct Inside<F> {
    frame: Arc<Frame>,
    #[pin]
    body: TaskLocalFuture<Arc<Frame>, F>,
}

impl<F> Inside<F> {
    /// Encloses the body in `hold`, and in all that encloses the caller.
    pub(crate) fn new(locks: LocksId, hold: &Arc<Hold>, body: F) -> Self
    where
        F: Future,
    {
        let frame = Arc::new(Frame {
            locks,
            hold: Arc::clone(hold),
            polled_in: Mutex::new(None),
            outer: innermost(),
        });
        Self {
            frame: Arc::clone(&frame),
            body: CHAIN.scope(frame, body),
        }
    }
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        *this.frame.polled_in.lock() = task::try_id();
        this.body.poll(cx)
    }
}

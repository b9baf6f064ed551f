//! The detection of deadlocks. An acquisition that waits while its call graph holds other locks may wait for itself, by
//! way of others. It publishes its wait, searches for a cycle among the waits of all processes, and gives way if it is
//! chosen.
//!
//! Of the waits that wait for each other, the last to publish walks after all others have published, so the cycle is
//! found. It is confirmed by a second walk ([`walk`]). Every wait of a cycle may find it. A claim in the store decides
//! which one gives way.
//!
//! An acquisition that nothing encloses does not take part. An enclosed one arms one timer after its first request is
//! answered and it has to wait. The search begins a quarter of a heartbeat after the acquisition began.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::select;

use crate::base::error::LockError;
use crate::base::timer::{after, sleep_until};

mod search;
mod searches;
mod waiting;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use self::searches::Searches;
pub(crate) use self::waiting::Waiting;

/// Waits for a lock, unless that is a deadlock and this wait is chosen to give way.
///
/// Dropping it removes what was published, in the background.
pub(crate) async fn unless_deadlock<T>(
    mut acquiring: Pin<&mut impl Future<Output = Result<T, LockError>>>,
    waiting: Waiting<'_>,
) -> Result<T, LockError> {
    // It is certain to be polled when its first request is answered, so no timer is needed until then.
    let first = poll_fn(|cx| match acquiring.as_mut().poll(cx) {
        Poll::Ready(acquired) => Poll::Ready(Some(acquired)),
        Poll::Pending if waiting.queues.is_alone_at(waiting.key, waiting.hold) => Poll::Pending,
        Poll::Pending => Poll::Ready(None),
    });
    if let Some(acquired) = first.await {
        return acquired;
    }
    let patience = after(waiting.since, waiting.heartbeat / 4);
    select! {
        biased;
        acquired = &mut acquiring => return acquired,
        () = sleep_until(patience) => {}
    }
    select! {
        biased;
        acquired = acquiring => acquired,
        error = Box::pin(waiting.search()) => Err(error),
    }
}

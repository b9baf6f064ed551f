//! The subscriber of one test for spans and events.

use std::sync::LazyLock;

use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Subscriber};

/// A second subscriber. While a process has a single subscriber, `tracing` asks only the thread that reaches a callsite
/// first whether the callsite is of interest. If that thread belongs to a test without a subscriber, no other test sees
/// the callsite. With a second subscriber, `tracing` asks all of them.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Passes the spans and events of this thread to the subscriber until the guard is dropped. The single-threaded runtime
/// of a test runs all its tasks on this thread.
pub fn subscribe(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    LazyLock::force(&SECOND);
    set_default(subscriber)
}

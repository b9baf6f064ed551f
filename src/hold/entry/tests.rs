//! The fate of a lock whose caller ends before it can enter it.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tracing::{Event, Metadata, Subscriber, span};

use crate::support::subscriber::subscribe;
use crate::support::{DEADLINE, eventually};
use crate::{LockError, Locks};

/// A subscriber that panics as soon as a lock is acquired.
struct Panicking;

impl Subscriber for Panicking {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let is_ours = event.metadata().target() == "reentry";
        assert!(!is_ours, "as it is to");
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// No caller has entered it, and otherwise only its renewals would remain.
#[tokio::test(start_paused = true)]
async fn a_lock_that_could_not_be_reported_is_not_kept() -> Result<(), LockError> {
    let locks = Locks::in_memory();
    let acquiring = locks.lock("order:42").acquire();
    {
        let _reported = subscribe(Panicking);
        let acquired = AssertUnwindSafe(acquiring);
        let acquired = acquired.catch_unwind().await;
        assert!(acquired.is_err());
    }
    let is_free = async || locks.lock("order:42").no_wait().acquire().await.is_ok();
    eventually(DEADLINE, "a free lock", is_free).await;
    Ok(())
}

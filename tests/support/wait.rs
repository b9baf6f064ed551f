//! Waits for a condition, instead of a time.

use std::time::{Duration, Instant};

/// The time limit for something that should happen soon.
///
/// The limit is far longer than necessary, because the machine may be busy with the other tests.
pub const DEADLINE: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(2);

/// Checks `condition` repeatedly until it is true; panics with `what` after `deadline`.
///
/// A condition that hangs counts as false.
pub async fn eventually(deadline: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + deadline;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, condition()).await {
            Ok(true) => return,
            Ok(false) if Instant::now() < end => tokio::time::sleep(POLL).await,
            Ok(false) | Err(_) => panic!("not within {deadline:?}: {what}"),
        }
    }
}

/// The output of `future`; panics with `what` if it takes longer than `limit`.
pub async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

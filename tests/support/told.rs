//! What an error of the crate says.

use std::error::Error;
use std::fmt::Debug;

use reentry::{LockError, LostReason};

/// The complete text of an error and of its causes, including the text for developers.
pub fn all_of(error: &dyn Error) -> String {
    let mut told = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        told = format!("{told}\n{error} {error:?} {error:#?}");
        cause = error.source();
    }
    told
}

/// The text of the innermost cause: what the server said.
pub fn cause_of(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

/// The key of the lock that was lost, and the reason.
///
/// # Panics
///
/// Panics if the result is not a loss.
#[track_caller]
pub fn lost<T: Debug>(result: Result<T, LockError>) -> (String, LostReason) {
    match result {
        Err(LockError::Lost { key, reason, .. }) => (key, reason),
        other => panic!("not a loss, but {other:?}"),
    }
}

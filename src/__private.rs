//! What the expansion of `#[locked]` calls. Not part of the public interface.

use crate::{LockError, Locks, global};

/// The `Locks` in scope, else the installed one.
pub fn locks() -> Result<Locks, LockError> {
    global::current()
}

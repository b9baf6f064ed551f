//! The futures that the methods of this crate return, for code that names their types: a field of a struct, a future of its own.

pub use crate::api::guard::GuardScope;
pub use crate::api::in_current_call::InCurrentCall;
pub use crate::api::installed::LocksScope;
pub use crate::api::with_lock::{WithLock, WithLockFlat};

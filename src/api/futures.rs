//! The futures that the methods of this crate return. Use them to name their types, for example in a field of a struct
//! or in a future of your own.

pub use crate::api::guard::GuardScope;
pub use crate::api::in_current_call::InCurrentCall;
pub use crate::api::installed::LocksScope;
pub use crate::api::with_lock::{WithLock, WithLockFlat};

#![cfg_attr(feature = "macros", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "macros"),
    doc = "A reentrant distributed lock for async Rust."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// `#[locked]` names the crate by its path, also inside the crate.
#[allow(unused_extern_crates, reason = "used where the macro is used")]
extern crate self as reentry;

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod __fuzz;
#[doc(hidden)]
pub mod __private;
mod builder;
mod depth;
mod engine;
mod error;
mod global;
mod guard;
mod held;
mod hold;
mod id;
mod info;
mod key;
mod lease;
mod locks;
mod loss;
mod mutex;
mod options;
mod queue;
mod releaser;
mod report;
mod request;
mod scope;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod store;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
mod timer;
mod watchdog;
mod with_lock;

#[cfg(feature = "macros")]
pub use reentry_macros::locked;

pub use self::{
    builder::LocksBuilder,
    error::{LockError, LostReason, StoreError},
    global::LocksScope,
    guard::{GuardScope, LockGuard},
    held::Held,
    id::{FencingToken, HoldId, OwnerId, ParseHoldIdError},
    info::{Holder, LockInfo},
    locks::Locks,
    options::{DepthSync, HandOff, OnLost, Reentrancy, Wake},
    request::LockRequest,
    scope::{current_owner, held},
    with_lock::{WithLock, WithLockFlat},
};

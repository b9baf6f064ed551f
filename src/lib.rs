// The first definition of a label counts: links.md has it in the documentation, the page itself in the repository.
#![doc = include_str!("links.md")]
#![doc = ""]
#![cfg_attr(feature = "macros", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "macros"),
    doc = "A reentrant distributed lock for async Rust. How to use it is in the [guide]; its examples need the feature `macros`."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// `#[locked]` names the crate by its path, also inside the crate.
#[allow(unused_extern_crates, reason = "used where the macro is used")]
extern crate self as reentry;

mod api;
mod base;
pub mod guide;
mod hold;
mod queue;
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod store;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
#[cfg(any(test, feature = "test-util"))]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
pub mod testing;

#[cfg(feature = "macros")]
pub use reentry_macros::locked;

pub use self::{
    api::{
        builder::LocksBuilder,
        close::CloseReport,
        guard::{GuardScope, LockGuard},
        in_current_call::{FutureExt, InCurrentCall},
        inspect::{Holder, LockInfo},
        installed::LocksScope,
        keys::{OneKey, SeveralKeys},
        leader::{Campaign, Term},
        list::{ListedLock, LockList},
        lock_all::{LockAllGuard, LockAllRequest},
        locks::Locks,
        queue::{LockQueue, WaitingProcess},
        request::LockRequest,
        spawn::{JoinSetExt, spawn, spawn_blocking},
        with_lock::{WithLock, WithLockFlat},
    },
    base::{
        confirm::Replicas,
        error::{Blocked, LockError, LostReason, StoreError},
        held_by::HeldBy,
        id::{FencingToken, HoldId, OwnerId, ParseHoldIdError},
        mode::{Fairness, Mode},
        options::{DepthSync, HandOff, OnLost, Reentrancy, Wake},
    },
    hold::{
        held::Held,
        scope::{current, current_owner, held},
    },
    store::redis::Servers,
};

#[cfg(any(test, feature = "__admin"))]
#[doc(hidden)]
pub use self::api::__admin;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use self::api::__fuzz;
#[doc(hidden)]
pub use self::api::__private;

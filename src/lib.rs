// rustdoc uses the first definition of a label. The documentation uses links.md; the repository uses the pages' own.
#![doc = include_str!("links.md")]
#![doc = ""]
#![cfg_attr(feature = "macros", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "macros"),
    doc = "A reentrant distributed lock for async Rust. The [guide] describes how to use it. The examples need the feature `macros`."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The expansion of `#[locked]` names the crate by its path. This must also work inside the crate.
#[allow(unused_extern_crates, reason = "used wherever `#[locked]` is used")]
extern crate self as reentry;

mod api;
mod base;
pub mod guide;
mod hold;
mod queue;
mod redis;
#[cfg(test)]
#[path = "../tests/mounted/simulation/mod.rs"]
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

pub use self::api::admin;
pub use self::api::builder::LocksBuilder;
pub use self::api::close::CloseReport;
#[cfg(feature = "credentials")]
#[cfg_attr(docsrs, doc(cfg(feature = "credentials")))]
pub use self::api::credentials;
pub use self::api::guard::LockGuard;
pub use self::api::in_current_call::{FutureExt, spawn, spawn_blocking};
pub use self::api::locks::Locks;
pub use self::api::request::LockRequest;
pub use self::base::error::{Blocked, LockError, LostReason, StoreError};
pub use self::base::fence::FenceSql;
pub use self::base::id::FencingToken;
pub use self::base::options::OnLost;
pub use self::hold::held::Held;
pub use self::hold::scope::{current, held};
#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
pub use self::redis::Certificates;

#[doc(hidden)]
pub use self::api::__admin;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use self::api::__fuzz;
#[doc(hidden)]
pub use self::api::__private;

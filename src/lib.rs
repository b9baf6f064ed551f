#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod engine;
mod error;
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
mod store;
mod watchdog;
mod with_lock;

pub use self::{
    builder::LocksBuilder,
    error::{LockError, LostReason, StoreError},
    guard::{GuardScope, LockGuard},
    held::Held,
    id::{FencingToken, HoldId, OwnerId, ParseHoldIdError},
    info::{Holder, LockInfo},
    locks::Locks,
    options::{OnLost, Reentrancy, Wake},
    request::LockRequest,
    scope::{current_owner, held},
    with_lock::{WithLock, WithLockFlat},
};

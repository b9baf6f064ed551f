//! One file for each contestant.
//!
//! The crates take part through their public API. If a crate gives up while the lock is busy, because of a time limit
//! or because it never waits, the contestant asks again. A caller that needs the lock would do the same. None of the
//! five had to be left out.

pub(crate) mod async_redis_lock;
pub(crate) mod blpop;
pub(crate) mod classic;
pub(crate) mod classic_readers;
pub(crate) mod distributed_lock_redis;
pub(crate) mod in_process_queue;
pub(crate) mod rds_lock;
#[cfg(feature = "redisson")]
pub(crate) mod redisson_crate;
pub(crate) mod redisson_protocol;
pub(crate) mod reentry;
pub(crate) mod rslock;

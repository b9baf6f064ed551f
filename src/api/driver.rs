//! The types of other crates that the [builder](crate::LocksBuilder) takes, in the versions that fit.
//!
//! A program that uses `redis` or `deadpool-redis` itself may name its own types, if cargo gives it the same versions: `redis` 1,
//! and `deadpool-redis` 0.23.

/// From `deadpool-redis`, for [`LocksBuilder::pool`](crate::LocksBuilder::pool).
#[cfg(feature = "pool")]
#[cfg_attr(docsrs, doc(cfg(feature = "pool")))]
pub use deadpool_redis::{Config, Pool, PoolConfig, Runtime};
/// From `redis`, for [`LocksBuilder::client`](crate::LocksBuilder::client).
pub use redis::Client;

//! The types of other crates that the [builder](crate::LocksBuilder) accepts, in the matching versions.
//!
//! A program that depends on `redis` or `deadpool-redis` itself can use its own types, if cargo selects the same
//! versions: `redis` 1, and `deadpool-redis` 0.23.

/// From `deadpool-redis`, for [`LocksBuilder::pool`](crate::LocksBuilder::pool).
#[cfg(feature = "pool")]
#[cfg_attr(docsrs, doc(cfg(feature = "pool")))]
pub use deadpool_redis::{Config, Pool, PoolConfig, Runtime};
/// From `redis`, for [`LocksBuilder::client`](crate::LocksBuilder::client).
pub use redis::Client;

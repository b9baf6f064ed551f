//! Credentials that change while the program runs.
//!
//! Managed Redis services accept tokens that are valid for 15 to 60 minutes, for example Microsoft Entra ID, AWS IAM
//! and Google IAM. A password may also be rotated. With
//! [`LocksBuilder::credentials`](crate::LocksBuilder::credentials), every new connection logs in with the newest
//! credentials. It logs in again with each later value, and is not interrupted. So a rotation loses no lock.
//!
//! The traits come from `redis-rs`, so its providers can be used without changes. Its feature `entra-id` has a provider
//! for Azure. A program that fetches tokens itself sends them through a channel: see [`watched`].

pub use redis::{BasicAuth, RedisError, RedisResult, StreamingCredentialsProvider};

pub use crate::redis::watched;

//! Credentials that change while the program runs.
//!
//! Managed Redis services accept tokens that live for 15 to 60 minutes: Microsoft Entra ID, AWS IAM, Google IAM. And a
//! password may be rotated. With [`LocksBuilder::credentials`](crate::LocksBuilder::credentials) every connection logs in with
//! the newest credentials, and again with those that follow, without being interrupted. So no lock is lost by a rotation.
//!
//! The traits are those of `redis-rs`, so its providers can be used as they are: its feature `entra-id` has one for Azure.
//! A program that fetches tokens by itself puts them into a channel: see [`watched`].

pub use redis::{BasicAuth, RedisError, RedisResult, StreamingCredentialsProvider};

pub use crate::store::redis::watched;

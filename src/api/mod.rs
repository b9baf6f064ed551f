//! The public interface.

pub(crate) mod builder; // the configuration of a `Locks`
pub(crate) mod close; // how a program ends
pub(crate) mod engine; // what the clones of one `Locks` share, and how they acquire
pub(crate) mod guard; // a lock as a value
pub(crate) mod in_current_call; // work that leaves its task and keeps its call graph
pub(crate) mod leader; // one of all processes does a job
pub(crate) mod locks; // the handle that users clone, and how `#[locked]` finds it
pub(crate) mod request; // a request for one acquisition, with its options
pub(crate) mod with_lock; // a future that runs a body under a lock

pub mod __admin; // for the command `reentry`
#[cfg(any(test, fuzzing))]
#[path = "../../tests/mounted/properties/fuzz_targets.rs"]
pub mod __fuzz; // for the fuzz targets
pub mod __private; // for the expansion of `#[locked]`
pub mod admin; // for operators: a look at a lock, and a forced release

#[cfg(feature = "credentials")]
pub mod credentials {
    //! Credentials that change while the program runs.
    //!
    //! Managed Redis services accept tokens that are valid for 15 to 60 minutes, for example Microsoft Entra ID, AWS
    //! IAM and Google IAM. A password may also be rotated. With
    //! [`LocksBuilder::credentials`](crate::LocksBuilder::credentials), every new connection logs in with the newest
    //! credentials. It logs in again with each later value, and is not interrupted. So a rotation loses no lock.
    //!
    //! The traits come from `redis-rs`, so its providers can be used without changes. Its feature `entra-id` has a
    //! provider for Azure. A program that fetches tokens itself sends them through a channel: see [`watched`].

    pub use redis::{BasicAuth, RedisError, RedisResult, StreamingCredentialsProvider};

    pub use crate::redis::watched;
}

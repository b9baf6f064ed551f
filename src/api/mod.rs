//! The public interface.

pub(crate) mod builder; // the configuration of a `Locks`
pub(crate) mod close; // how a program ends
#[cfg(feature = "credentials")]
pub mod credentials; // credentials that change while the program runs
pub(crate) mod engine; // what the clones of one `Locks` share, and how they acquire
pub(crate) mod guard; // a lock as a value
pub(crate) mod in_current_call; // work that leaves its task and keeps its call graph
pub(crate) mod installed; // the `Locks` that `#[locked]` finds by itself
pub(crate) mod leader; // one of all processes does a job
pub(crate) mod locks; // the handle that users clone
mod options; // the options of the builder and of each request
pub(crate) mod request; // a request for one acquisition
pub(crate) mod with_lock; // a future that runs a body under a lock

pub mod __admin; // for the command `reentry`
#[cfg(any(test, fuzzing))]
pub mod __fuzz; // for the fuzz targets
pub mod __private; // for the expansion of `#[locked]`
pub mod admin; // for operators: a look at a lock, and a forced release

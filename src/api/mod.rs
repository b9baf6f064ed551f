//! The public interface.

pub(crate) mod builder;
pub(crate) mod close;
#[cfg(feature = "credentials")]
pub mod credentials;
pub(crate) mod engine;
pub(crate) mod guard;
pub(crate) mod in_current_call;
pub(crate) mod installed;
pub(crate) mod leader;
pub(crate) mod locks;
mod options;
pub(crate) mod request;
pub(crate) mod with_lock;

pub mod __admin;
#[cfg(any(test, fuzzing))]
pub mod __fuzz;
pub mod __private;
pub mod admin;

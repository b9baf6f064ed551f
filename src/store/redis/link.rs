//! The connections to a server: how they are opened, and when the server is tried again.

pub(crate) mod address;
pub(super) mod attempt;
#[cfg(feature = "tls")]
pub(super) mod certificates;
#[cfg(feature = "credentials")]
pub(super) mod credentials;
pub(crate) mod driver;
pub(crate) mod parameters;
pub(crate) mod source;

//! How a server is connected to, and when it is tried again.

pub(crate) mod address;
pub(super) mod attempt;
pub(super) mod breaker;
pub(crate) mod source;

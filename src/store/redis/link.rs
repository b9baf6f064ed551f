//! How a server is connected to, and when it is tried again.

pub(super) mod address;
pub(super) mod attempt;
pub(super) mod breaker;
pub(super) mod kept;
pub(super) mod outages;
pub(crate) mod source;

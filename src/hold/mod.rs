//! A lock that is held: how deep, for how long, and by which call graph.

pub(crate) mod abort;
pub(crate) mod body;
pub(crate) mod confirm;
pub(crate) mod deadlock;
pub(crate) mod depth;
pub(crate) mod depth_mirror;
pub(crate) mod entry;
pub(crate) mod exit;
pub(crate) mod held;
pub(crate) mod hold;
pub(crate) mod lease;
pub(crate) mod poll_watch;
mod renew_request;
pub(crate) mod renewals;
pub(crate) mod scope;

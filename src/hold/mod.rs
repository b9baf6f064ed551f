//! A lock that is held: how deep, for how long, and by which call graph.

pub(crate) mod abort;
pub(crate) mod confirm;
pub(crate) mod deadlock;
pub(crate) mod depth;
pub(crate) mod depth_mirror;
pub(crate) mod entry;
pub(crate) mod exit;
pub(crate) mod group;
pub(crate) mod held;
pub(crate) mod hold;
pub(crate) mod lease;
pub(crate) mod member;
pub(crate) mod poll_watch;
pub(crate) mod renewable;
mod renewal;
pub(crate) mod renewals;
pub(crate) mod schedule;
pub(crate) mod scope;
pub(crate) mod spawned;

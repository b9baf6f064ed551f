//! The content of a connection: requests with their keys and limits, replies, messages and failures.

pub(crate) mod call;
pub(crate) mod failure;
pub(crate) mod mistake;
pub(crate) mod names;
pub(crate) mod question;
pub(crate) mod reply;

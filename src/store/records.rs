//! What the verbs and both stores speak of.

pub(crate) mod limits;
pub(crate) mod messages;
pub(crate) mod queue_entry;
pub(crate) mod scan;
pub(crate) mod waits;

//! What the scripts and the memory store agree on.

use std::time::Duration;

/// How long an ended hold is remembered, and so how late a request may still arrive.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

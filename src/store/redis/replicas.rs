//! What the replicas of a server have.

pub(super) mod confirmer;
pub(super) mod replication_id;

//! A lock that is held: how deep, for how long, and by which call graph.

pub(crate) mod body; // a body that runs under locks, raced against their loss
pub(crate) mod core; // what the holds of one `Locks` share
pub(crate) mod deadlock; // the search for deadlocks
mod depth_mirror; // the task that updates the depth in the store
pub(crate) mod entry; // one level of a hold
pub(crate) mod exit; // the last one to leave a hold ends it
pub(crate) mod held; // the view of a lock from inside its body
pub(crate) mod hold; // one outermost acquisition
mod lease; // the deadline until which a hold may rely on its lock
pub(crate) mod poll_watch; // whether an acquisition with some of its locks is polled
pub(crate) mod renew_request; // one request that renews leases, or verifies them
mod renewals; // the schedule of all renewals, and the attempts
pub(crate) mod replicas; // the confirmation by replicas, if a hold counts only with them
mod runtime_schedule; // the holds that are renewed on one runtime
pub(crate) mod scope; // the chain of the locks that enclosing calls hold

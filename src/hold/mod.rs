//! A lock that is held: how deep, for how long, and by which call graph.

pub(crate) mod abort; // a body raced against the loss of its lock
pub(crate) mod body; // a body that runs under locks
pub(crate) mod confirm; // what a hold waits for before its body begins
pub(crate) mod deadlock; // the search for deadlocks
pub(crate) mod depth; // the number of nested entries and members
pub(crate) mod depth_mirror; // the task that updates the depth in the store
pub(crate) mod entry; // one level of a hold
pub(crate) mod exit; // the last one to leave a hold ends it
pub(crate) mod held; // the view of a lock from inside its body
pub(crate) mod hold; // one outermost acquisition
pub(crate) mod lease; // the deadline until which a hold may rely on its lock
pub(crate) mod poll_watch; // whether an acquisition with some of its locks is polled
mod renew_request; // one request that renews leases
pub(crate) mod renewals; // the schedule of all renewals
pub(crate) mod scope; // the chain of the locks that enclosing calls hold

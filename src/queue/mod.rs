//! The local queues: who waits in this process, and for which lock.

mod alone; // a lock that only one hold of this process wants
mod attempts; // single attempts at several locks
mod callers; // the callers of one local queue
mod contention; // holders that want to know whether others wait
mod driver; // the task that sends the requests of a local queue
mod grant; // a lock on its way to its caller, its token, and its end
mod holder_lookup; // who has the lock that a caller waits for
mod line; // the local queue of one key, with its callers and driver
mod lines; // the value for each key that is held or waited for
mod local_queue; // the machine of a local queue
mod local_queues; // the map of all local queues, and their mutex
mod queue; // the interface: acquire, hand off, and what happens to a lock
mod releasing; // the end of a hold
mod request; // an acquire, sent once, and a release, sent until it is answered
mod step; // the inputs and the actions of the machine
mod wait; // the future of a caller that waits
mod waiter; // one waiter, and what it learns from a response
mod wanted; // the wait of a holder until another caller wants its lock

#[cfg(test)]
mod tests;

pub(crate) use self::attempts::Attempted;
pub(crate) use self::grant::{Grant, Release, StoredDepth, TokenSeries};
pub(crate) use self::local_queues::LocalQueues;

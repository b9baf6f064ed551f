//! The local queues: who waits in this process, and for which lock.
//!
//! Callers that want the same key wait for it in one local queue of their process, first come, first served. Only the
//! first of them sends requests to the store, where it is in the queue for the whole process. While the process holds
//! the lock, no waiter sends requests: the last exit of a call graph hands the lock to the first waiter in memory. If it
//! may not, it releases the lock, and the first waiter sends its request right behind the release.
//!
//! What follows from each event is decided by a [machine]. The [map of all keys](LocalQueues) is the one place that
//! gives it input and executes its actions. A lock that only one hold wants has no local queue yet: its caller polls its
//! own request ([`wait`]). As soon as another caller joins, or the first one has to wait, a [driver](local_queues) sends the requests
//! of the local queue, watches the time, and takes back grants.
//!
//! # Invariants
//!
//! 1. For each key there is at most one acquire in flight.
//! 2. The reply to a request belongs to the local queue, not to the caller for which it was sent. It is processed once.
//! 3. No request is made for a waiter that has left. A request that was made before is answered first. Then what it has
//!    brought is released.
//! 4. A message is processed after the reply to the acquire that was in flight when the message arrived.
//! 5. A waiter that is granted the lock and does not claim it within two heartbeats is passed over.
//! 6. A waiter that makes only one attempt stays in the local queue until one acquire is answered: its own, or the one
//!    that was in flight when it joined.
//! 7. A local queue with callers has a driver, which alone polls its requests. The end of a runtime takes its tasks with
//!    it. Then the request is not answered, and a caller on another runtime starts the next driver.
//!
//! # Lock order
//!
//! The [states of all keys](local_queues) have the one mutex. While it is locked, neither the store nor a runtime
//! nor a waker is called, and no waker is dropped. Any of them may run code that calls back into the queues.

mod acquire_locks; // the acquisition of a lock, and single attempts at several
mod local_queues; // the map of all keys with its mutex; of each its machine, its callers and its driver
mod machine; // what follows from each event
mod release_lock; // the end of a hold: handed off, or released
mod requests; // an acquire, sent once, and a release, sent until it is answered
mod wait; // the future of a caller that waits

#[cfg(test)]
mod tests;

pub(crate) use self::acquire_locks::Attempts;
pub(crate) use self::local_queues::LocalQueues;
pub(crate) use self::machine::{Grant, HoldEnd, StoredDepth};

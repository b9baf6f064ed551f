//! The lowest layer: names, errors, options and time, and the events, spans and metrics that all other layers report.

pub(crate) mod background; // work that is finished even if no caller waits for it, and the signal that it was written
pub(crate) mod error; // `LockError`, and the reason for a loss
pub(crate) mod events; // the `tracing` events, and the metrics that are counted with them
pub(crate) mod fence; // the SQL with which a database rejects a stale holder
pub(crate) mod id; // owners, holds, inboxes and fencing tokens
pub(crate) mod key; // the names of locks, their validation and their slots
pub(crate) mod lease_times; // the times of a lease, and the clock of the store
pub(crate) mod metrics; // what the feature `metrics` records
pub(crate) mod options; // the options, their defaults and their checks
pub(crate) mod process; // the process of a call graph and its description, and the holder of a lock
pub(crate) mod sanitize; // texts of others, without what gives orders to a terminal
pub(crate) mod span; // the spans `lock.wait` and `lock.hold`
pub(crate) mod store_error; // `StoreError`: what became of a request that failed
pub(crate) mod sync; // a mutex, the wait for a change, a call at the end of a task, the count of work for which `close` waits
pub(crate) mod timer; // timers that follow their future from runtime to runtime, and the pauses between attempts

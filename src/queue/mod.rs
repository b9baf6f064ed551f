//! The local queues: who waits in this process, and for which lock.

mod alone;
mod attempts;
mod callers;
mod contention;
mod driver;
mod grant;
mod holder_lookup;
mod line;
mod lines;
mod local_queue;
mod local_queues;
mod queue;
mod releasing;
mod request;
mod step;
mod wait;
mod waiter;
mod wanted;

#[cfg(test)]
mod tests;

pub(crate) use self::attempts::Attempted;
pub(crate) use self::grant::{Grant, Release, StoredDepth, TokenSeries};
pub(crate) use self::local_queues::LocalQueues;

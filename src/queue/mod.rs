//! The local queues: who waits in this process, and for which lock.

mod abandoned;
mod alone;
mod clock;
mod driver;
mod effects;
mod grant;
mod holder_lookup;
mod lines;
mod local_queue;
mod local_queues;
mod queue;
mod release;
mod releasing;
mod request;
mod several;
mod step;
mod tokens;
mod wait;
mod waiter;
mod wish;

#[cfg(test)]
mod tests;

pub(crate) use self::grant::{Grant, StoredDepth};
pub(crate) use self::local_queues::LocalQueues;
pub(crate) use self::release::Release;
pub(crate) use self::releasing::Together;
pub(crate) use self::several::Stop;
pub(crate) use self::tokens::TokenSeries;

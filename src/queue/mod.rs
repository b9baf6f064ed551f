//! The local queues: who waits in this process, and for which lock.

mod abandoned;
mod alone;
mod clock;
mod cohort;
mod driver;
mod effects;
mod holder_lookup;
mod lines;
mod local_queue;
mod local_queues;
mod queue;
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

pub(crate) use self::{
    cohort::{Cohort, Leased, Stored},
    local_queues::LocalQueues,
    several::End,
    step::Release,
    tokens::TokenSeries,
};

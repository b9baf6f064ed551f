//! The machine of a local queue: who waits for one key in this process, who holds it, and which request is in flight.
//! Every change is one [`step`](WaitMachine::step), which only returns what must be done.
//!
//! It has no clock, no store and no tasks of its own, so that every sequence of steps can be tried. The tests beside it
//! follow the diagram of [`Stage`](waiters::Stage), and the model checker drives this very machine.

mod grant; // a lock on its way to its caller, and its end
mod holders; // the holders in this process
mod holding; // the grants and hand-offs in this process, and their ends
mod messages; // the inputs and the actions
mod sending; // when the first waiter sends a request
mod store_clock; // what is known of the server's clock, and tokens
mod wait_machine; // the machine, and its step
mod waiters; // the waiters, and what each learns from a reply

#[cfg(test)]
#[path = "../../tests/model/mod.rs"]
mod model;
#[cfg(test)]
#[path = "../../tests/properties/wait_machine.rs"]
mod properties;

pub(crate) use self::grant::{Grant, Release, StoredDepth};
pub(crate) use self::holders::SoleHolder;
pub(crate) use self::messages::{
    AcquireSpec, Action, Denied, HoldIds, Input, LastReply, Reply, unanswered,
};
pub(crate) use self::store_clock::TokenSeries;
pub(crate) use self::wait_machine::WaitMachine;
pub(crate) use self::waiters::{Outcome, Waiter};

//! The machine as a table: what happens is on the left, and what must be done about it on the right.

mod alone;
mod asks_once;
mod events;
mod leaving;
mod many;
mod messages;
mod orders;
mod pauses;
#[path = "../../../tests/properties/local_queue.rs"]
mod properties;
mod readers;
mod replies;
mod story;
mod turns;
mod waiters;

//! The machine as a table, with the events on the left, and the actions that follow on the right.

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
mod wanted;

//! One file for each question.

pub(crate) mod drain;
pub(crate) mod fairness;
pub(crate) mod figures;
pub(crate) mod handoff;
pub(crate) mod idle;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod processes;
pub(crate) mod subscriptions;
pub(crate) mod throughput;
pub(crate) mod uncontended;
pub(crate) mod waiting;

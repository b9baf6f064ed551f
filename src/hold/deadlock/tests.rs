//! The walks while anything changes. The search is tested on the in-memory store.

use super::walk::MAX_CYCLE;

mod changes;
mod cycles;
mod shell;
mod store;

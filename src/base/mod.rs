//! The lowest layer: names, errors, options and time, and the events, spans and metrics that all other layers report.

pub(crate) mod activity;
pub(crate) mod background;
pub(crate) mod backoff;
pub(crate) mod error;
pub(crate) mod error_details;
pub(crate) mod events;
pub(crate) mod fence;
pub(crate) mod holder;
pub(crate) mod id;
pub(crate) mod key;
pub(crate) mod metrics;
pub(crate) mod option_types;
pub(crate) mod options;
pub(crate) mod process;
pub(crate) mod shown;
pub(crate) mod span;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod timer;

//! The ground floor: names, errors, options, time, and the events, spans and metrics that all other floors report.

pub(crate) mod acquisition;
pub(crate) mod activity;
pub(crate) mod background;
pub(crate) mod backoff;
pub(crate) mod confirm;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod glob;
pub(crate) mod held_by;
pub(crate) mod id;
pub(crate) mod key;
pub(crate) mod lease;
pub(crate) mod lost_reason;
pub(crate) mod metrics;
pub(crate) mod mode;
pub(crate) mod mutex;
pub(crate) mod notify;
pub(crate) mod option_enums;
pub(crate) mod options;
pub(crate) mod slot;
pub(crate) mod span;
pub(crate) mod store_error;
pub(crate) mod store_time;
pub(crate) mod throttle;
pub(crate) mod timer;

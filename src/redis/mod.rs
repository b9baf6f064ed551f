//! Scripts on Redis: one server, the primary that sentinels name, or a cluster. Each call is sent once, with an exact
//! account of what may have become of it if it fails. Nothing here knows locks.
//!
//! [`Servers::ask`] sends a call. The [generation](common::Generation) says when what a server has said may no longer
//! hold. An [`Inbox`] brings messages.

pub(crate) mod address;
mod ask_most;
mod attempt;
#[cfg(feature = "tls")]
mod certificates;
mod cluster;
pub(crate) mod common;
mod confirmer;
mod connector;
#[cfg(feature = "credentials")]
mod credentials;
pub(crate) mod driver;
pub(crate) mod failure;
mod inbox;
pub(crate) mod introduction;
mod mistake;
pub(crate) mod origin;
mod script;
mod sentinels;
pub(crate) mod servers;
pub(crate) mod source;

#[cfg(feature = "tls")]
pub use self::certificates::Certificates;
#[cfg(feature = "credentials")]
pub(crate) use self::credentials::Credentials;
#[cfg(feature = "credentials")]
pub use self::credentials::watched;
pub(crate) use self::inbox::{Inbox, Messages, Subscription};
#[cfg(any(test, fuzzing))]
pub(crate) use self::origin::properties::url;
pub(crate) use self::origin::{Login, Origin};
pub(crate) use self::script::{Call, Script};
pub(crate) use self::servers::Servers;
pub(crate) use self::source::Timeouts;

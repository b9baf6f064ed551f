//! Scripts on Redis: one server, the primary that sentinels name, or a cluster. Each call is sent once, with an exact
//! account of what may have become of it if it fails. Nothing here knows locks.
//!
//! [`Servers::ask`] sends a call. The [generation](common::Generation) says when what a server has said may no longer
//! hold. An [`Inbox`] brings messages.

pub(crate) mod address; // the address of one server
mod ask_most; // one question to several servers, of which most must answer
mod attempt; // an attempt that all callers wait for
#[cfg(feature = "tls")]
mod certificates; // the program's own certificates for TLS
mod cluster; // which server has a slot, and a connector for each
pub(crate) mod common; // what the connectors of one store share: its generation
mod confirmer; // the wait until replicas have what a server has executed
mod connector; // the connection for commands to one server
#[cfg(feature = "credentials")]
mod credentials; // credentials that change while the program runs
pub(crate) mod driver; // the socket of a connection, and its task
pub(crate) mod failure; // what an error says about what was executed
mod inbox; // the subscription that brings messages
pub(crate) mod introduction; // the description that a process sends to a server
mod mistake; // errors that are mistakes in the program or a setting
pub(crate) mod origin; // the servers that a URL names, and the login to them
mod script; // a script, and one call of it
mod sentinels; // the primary that the sentinels name
pub(crate) mod servers; // one server at a time, or those of a cluster
pub(crate) mod source; // what opens connections to one place
mod writes; // when what a driver was handed is written

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

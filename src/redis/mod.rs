//! Scripts on Redis: one server, the primary that sentinels name, or a cluster. Each call is sent once, with an exact
//! account of what may have become of it if it fails. Nothing here knows locks.
//!
//! [`Servers::ask`] sends a call. The [generation](context::Generation) says when what a server has said may no longer
//! hold. An [`Inbox`] brings messages.

#[cfg(feature = "tls")]
mod certificates; // the program's own certificates for TLS
mod cluster; // which server has a slot, and a connector for each
mod confirmer; // the wait until replicas have what a server has executed
mod connector; // the connection for commands to one server
pub(crate) mod context; // what the connectors of one store share: timeouts, generation
#[cfg(feature = "credentials")]
mod credentials; // credentials that change while the program runs
pub(crate) mod failure; // what an error says about what was executed
mod inbox; // the subscription that brings messages
mod script; // a script, and one call of it
pub(crate) mod self_description; // the description that a process sends to a server
mod sentinels; // the primary that the sentinels name
mod servers; // one server at a time, or those of a cluster
mod shared_attempts; // an attempt that all callers share; a question that most servers must answer
pub(crate) mod source; // what opens connections to one place: TCP, TLS or a Unix socket; the address of a server
mod writes; // when what a driver was handed is written

#[cfg(feature = "tls")]
pub use self::certificates::Certificates;
pub(crate) use self::context::Timeouts;
#[cfg(feature = "credentials")]
pub(crate) use self::credentials::Credentials;
#[cfg(feature = "credentials")]
pub use self::credentials::watched;
pub(crate) use self::inbox::{Inbox, MessageHandler, Subscription};
pub(crate) use self::script::{Call, Script};
pub(crate) use self::servers::{ServerSpec, Servers, Topology};

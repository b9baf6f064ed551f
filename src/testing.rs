//! A server in memory for the tests of a service. Several [`Locks`](crate::Locks) share it, as the replicas of the
//! service share their Redis, and it fails when the test wants it to fail.
//!
//! Needs the feature `test-util`, which only the tests of a service should have:
//!
//! ```text
//! cargo add --dev reentry --features test-util
//! cargo add --dev tokio --features test-util
//! ```
//!
//! All waiting uses the tokio clock. So with `start_paused` a test takes no time, and decides when a lease expires, for
//! all replicas together. The server does nothing at random; the pauses of a `Locks` between two attempts have jitter,
//! as always.
//!
//! | switch | what the service sees |
//! |---|---|
//! | [`stop`](Server::stop), [`start`](Server::start) | connections end; requests are refused at once |
//! | [`pause`](Server::pause), [`resume`](Server::resume) | no answers, until the timeouts; what was sent is executed late |
//! | [`partition`](Server::partition), [`heal`](Server::heal) | no answers for one replica, until the timeouts; what was sent is lost |
//! | [`lose_data`](Server::lose_data) | all locks are forgotten |
//! | [`step_clock_forward`](Server::step_clock_forward), [`step_clock_back`](Server::step_clock_back) | leases in the store expire early or late, tokens jump |
//!
//! A replica that is killed leaves its locks in the store. So partition it first, and then drop what it runs. Otherwise
//! the dropped work releases its locks in the background.
//!
//! # Examples
//!
//! One replica is killed inside its critical section. The other one enters when the lease has expired, with a greater
//! token.
//!
//! ```
//! use std::time::Duration;
//!
//! use reentry::{LockError, testing::Server};
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), LockError> {
//! let server = Server::new();
//! let (first, second) = (server.locks(), server.locks());
//!
//! let guard = first.lock("order:42").await?;
//! let token = guard.held().fencing_token();
//! server.partition(&first);
//! drop(guard);
//!
//! let killed = Instant::now();
//! let guard = second.lock("order:42").await?;
//! assert!(killed.elapsed() >= Duration::from_secs(30)); // the default TTL
//! assert!(guard.held().fencing_token() > token);
//! # Ok(())
//! # }
//! ```

mod connection;
mod host;
mod network;
mod server;
#[cfg(test)]
mod tests;
mod wire;

pub use self::server::Server;

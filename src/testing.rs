//! A server in memory for the tests of a service, which fails when a test wants it to. Several [`Locks`](crate::Locks) share
//! it, as the replicas of the service share their Redis. It requires the feature `test-util`, for tests alone:
//!
//! ```text
//! cargo add --dev reentry --features test-util
//! cargo add --dev tokio --features test-util
//! ```
//!
//! All waiting uses the tokio clock, so a test with `start_paused` takes no time, and controls when a lease expires. The
//! server does nothing at random; the pauses of a `Locks` between two attempts have jitter, as always.
//!
//! | call | what the service sees |
//! |---|---|
//! | [`stop`](Server::stop), [`start`](Server::start) | connections end, and requests are rejected immediately |
//! | [`pause`](Server::pause), [`resume`](Server::resume) | no responses until the timeouts; requests that were sent are executed late |
//! | [`partition`](Server::partition), [`heal`](Server::heal) | no responses for one replica until the timeouts; requests that were sent are lost |
//! | [`lose_data`](Server::lose_data) | all locks are lost |
//! | [`step_clock_forward`](Server::step_clock_forward), [`step_clock_back`](Server::step_clock_back) | leases expire early or late, and tokens jump |
//!
//! A replica that is killed sends nothing more, not even a release. So partition it first, and then drop what it runs.
//!
//! # Examples
//!
//! One replica is killed inside its lock. The other one enters when the lease has expired, with a greater token:
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

mod host;
mod network;
mod process_wire;
mod server;
#[cfg(test)]
mod tests;

pub use self::server::Server;

//! The public handle to the in-memory server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::network::Network;
use super::process_wire::ProcessWire;
use crate::api::builder::{Backend, LocksBuilder};
use crate::api::locks::Locks;

/// A server in memory that takes the place of Redis, and fails on command. Clones are the same server.
///
/// # Examples
///
/// A service that returns the status 503 while its store is unavailable:
///
/// ```
/// use std::time::Duration;
///
/// use reentry::{LockError, Locks, testing::Server};
///
/// async fn ship(locks: &Locks) -> u16 {
///     match locks.lock("order:42").wait(Duration::from_secs(2)).run(async {}).await {
///         Ok(()) => 204,
///         Err(error) if error.is_busy() => 409,
///         Err(error) if error.is_unavailable() => 503,
///         Err(_) => 500,
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), LockError> {
/// let server = Server::new();
/// let (replica, other) = (server.locks(), server.locks());
/// assert_eq!(ship(&replica).await, 204);
///
/// server.stop();
/// assert_eq!(ship(&replica).await, 503);
///
/// server.start();
/// let _elsewhere = other.lock("order:42").await?;
/// assert_eq!(ship(&replica).await, 409);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server(Network);

impl Server {
    /// Creates a running server without data.
    #[must_use]
    pub fn new() -> Self {
        Self(Network::default())
    }

    /// Makes a `Locks` with the defaults, which acts as a process of its own: it waits in the queue with the others,
    /// and does not re-enter their locks. It is connected if the server is running.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let (a, b) = (server.locks(), server.locks());
    /// let guard = a.lock("order:42").await?;
    /// assert!(b.lock("order:42").try_acquire().await?.is_none());
    /// guard.release().await?;
    /// assert!(b.lock("order:42").try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn locks(&self) -> Locks {
        let builder = self.builder();
        let store = self.0.connect(builder.timeouts);
        builder.build_on(store)
    }

    /// Makes a builder for a `Locks` of this server, with options of its own except a [`login`](LocksBuilder::login).
    /// It acts as a process, as one of [`locks`](Self::locks) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// server.stop();
    /// let replica = || server.builder().prefix("billing:").ttl(Duration::from_secs(10));
    /// assert!(replica().build().await.unwrap_err().is_unavailable());
    /// let locks = replica().build_lazy()?;
    /// server.start();
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(&self) -> LocksBuilder {
        let network = self.0.clone();
        // The wire is made when the `Locks` is built, because its timeouts are known only then.
        LocksBuilder::new(Backend::Test(Arc::new(move |timeouts| {
            network.open(timeouts)
        })))
    }

    /// Stops the server, which keeps its data. Its connections end, and new ones are rejected.
    ///
    /// Acquisitions try for their `outage`, and then [fail](crate::LockError::is_unavailable). Holders keep their locks
    /// until their deadlines. What a paused server had received is not executed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let locks = server.locks();
    /// let body = async {
    ///     server.stop();
    ///     tokio::time::sleep(Duration::from_secs(60)).await; // longer than the TTL
    /// };
    /// assert!(locks.with_lock("order:42", body).await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) {
        // The server first: a process that notices its lost connection must not connect again before.
        self.0.host.stop();
        self.0.on_wires(ProcessWire::disconnect);
    }

    /// Starts a stopped server with its data. Leases that have expired meanwhile stay expired.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let locks = server.locks();
    /// let body = async {
    ///     server.stop();
    ///     tokio::time::sleep(Duration::from_secs(20)).await; // shorter than the TTL
    ///     server.start();
    ///     tokio::time::sleep(Duration::from_secs(60)).await;
    /// };
    /// locks.with_lock("order:42", body).await?; // it was renewed
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(&self) {
        self.0.host.start();
        // An inbox is opened at once. A connection for requests is opened by the next request.
        self.0.on_wires(ProcessWire::subscribe_again);
    }

    /// Pauses the server, as SIGSTOP or a slow script does: it accepts requests, and does not respond.
    ///
    /// A request fails after the [`response_timeout`](LocksBuilder::response_timeout), and may still be executed, as
    /// [`is_outcome_unknown`](crate::StoreError::is_outcome_unknown) reports. The next one cannot open a connection
    /// within the [`connect_timeout`](LocksBuilder::connect_timeout), so it is not executed. A stopped server stays
    /// stopped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use reentry::LockError;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), LockError> {
    /// let server = reentry::testing::Server::new();
    /// let locks = server.locks();
    /// server.pause();
    /// let Err(LockError::Unavailable { source, .. }) = locks.lock("order:42").no_wait().await else {
    ///     panic!("it cannot be known who has the lock");
    /// };
    /// assert!(source.is_outcome_unknown());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self) {
        self.0.host.pause();
    }

    /// Resumes a paused server. It executes what it has received meanwhile, in order, and callers that still wait get
    /// their responses.
    ///
    /// So an acquisition whose caller has given up may acquire its lock now. That lock is then released in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let (a, b) = (server.locks(), server.locks());
    /// server.pause();
    /// assert!(a.lock("order:42").no_wait().await.unwrap_err().is_unavailable());
    /// server.resume();
    /// let soon = Duration::from_secs(2); // far less than the TTL
    /// b.lock("order:42").wait(soon).run(async {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(&self) {
        self.0.host.resume();
        // Only now, because an inbox is opened only at a server that runs.
        self.0.on_wires(ProcessWire::subscribe_again);
    }

    /// Removes all data of the server, as FLUSHALL does, and keeps its connections. Between [`stop`](Self::stop) and
    /// [`start`](Self::start), it is a restart without persistence.
    ///
    /// A holder learns of it at its next request, at the latest at its next renewal, and after a restart at once. Until
    /// then, another holder may be inside as well, with a greater [fencing token](crate::FencingToken).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let (a, b) = (server.locks(), server.locks());
    /// let first = a.lock("order:42").await?;
    /// server.lose_data();
    /// let second = b.lock("order:42").await?;
    /// assert!(second.held().fencing_token() > first.held().fencing_token());
    /// assert!(first.release().await.unwrap_err().is_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lose_data(&self) {
        self.0.host.store.forget();
    }

    /// Steps the clock of the server forward, but not that of the test, by ten years at most in all.
    ///
    /// Leases expire earlier in the server than their holders assume, so two holders may be inside. The later one has
    /// the greater [fencing token](crate::FencingToken).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let (a, b) = (server.locks(), server.locks());
    /// let first = a.lock("order:42").await?;
    /// server.step_clock_forward(Duration::from_secs(30));
    /// let second = b.lock("order:42").no_wait().await?;
    /// assert!(second.held().fencing_token() > first.held().fencing_token());
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_clock_forward(&self, by: Duration) {
        self.0.host.store.step_clock_forward(by);
    }

    /// Steps the clock of the server back, but not that of the test, by ten years at most in all.
    ///
    /// Leases last longer in the server than their holders assume. If the clock goes back by more than the time since
    /// the last acquisition, a new holder has a smaller token than the one before it, and the resource rejects it until
    /// the clock has caught up.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let locks = server.locks();
    /// let token = || locks.with_lock("order:42", async { reentry::current().map(|held| held.fencing_token()) });
    /// let before = token().await?;
    /// server.step_clock_back(Duration::from_secs(1));
    /// assert!(token().await? < before);
    /// # Ok(())
    /// # }
    /// ```
    pub fn step_clock_back(&self, by: Duration) {
        self.0.host.store.step_clock_back(by);
    }

    /// Cuts the network between the server and one `Locks`, with all its clones: requests, responses and messages are
    /// lost, and nothing reports it. The other `Locks` go on.
    ///
    /// Requests fail as on a [paused](Self::pause) server. Holds are lost at their deadlines, and stay in the server
    /// until their leases expire, a little later.
    ///
    /// # Panics
    ///
    /// Panics if the `Locks` does not belong to this server.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::future::pending;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let (a, b) = (server.locks(), server.locks());
    /// let cut_off = a.with_lock("order:42", async {
    ///     server.partition(&a);
    ///     pending::<()>().await;
    /// });
    /// assert!(cut_off.await.unwrap_err().is_lost());
    /// b.with_lock("order:42", async {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn partition(&self, locks: &Locks) {
        self.on_wire_of(locks, ProcessWire::partition);
    }

    /// Repairs the network between the server and a `Locks`. New connections are opened, and each hold is verified.
    ///
    /// # Panics
    ///
    /// Panics if the `Locks` does not belong to this server.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// let locks = server.locks();
    /// server.partition(&locks);
    /// assert!(locks.lock("order:42").no_wait().await.unwrap_err().is_unavailable());
    /// server.heal(&locks);
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn heal(&self, locks: &Locks) {
        self.on_wire_of(locks, ProcessWire::heal);
    }

    #[track_caller]
    fn on_wire_of(&self, locks: &Locks, happens: impl Fn(&ProcessWire)) {
        assert!(
            self.0.on_wire_of(&locks.engine.core.store, happens),
            "this `Locks` does not belong to this server: create it with `locks` or `builder`"
        );
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("condition", &self.0.host.condition())
            .finish_non_exhaustive()
    }
}

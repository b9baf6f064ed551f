//! The server of a user's tests.

use std::{fmt, sync::Arc, time::Duration};

use super::network::Network;
use crate::api::{builder::LocksBuilder, locks::Locks};

/// A server in memory, as Redis would be. Clones are the same server.
///
/// It keeps every promise, as [`Locks::in_memory`] does, as long as all is well. Then it also arms no timer of its own.
///
/// # Examples
///
/// A service answers 503 while its store is away.
///
/// ```
/// use std::time::Duration;
///
/// use reentry::{LockError, Locks, testing::Server};
///
/// async fn ship(locks: &Locks) -> u16 {
///     match locks.lock("order:42").wait(Duration::from_secs(2)).run(async {}).await {
///         Ok(()) => 204,
///         Err(error) if error.is_contended() => 409,
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
    /// A server that runs, without data.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// let server = reentry::testing::Server::new();
    /// assert_eq!(server.locks().with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self(Network::new())
    }

    /// A `Locks` with the defaults, as one more process would have it: it waits in the queue with the others, is told
    /// by a message that it is its turn, and does not re-enter what they hold. It is connected if the server runs.
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
        let timeouts = builder.timeouts();
        builder.over(self.0.connect(timeouts), timeouts.response)
    }

    /// A builder of such a `Locks`, for options of its own. [`build`](LocksBuilder::build) connects,
    /// [`build_lazy`](LocksBuilder::build_lazy) leaves that to the first call that needs it. A
    /// [`url`](LocksBuilder::url) or a [`pool`](LocksBuilder::pool) beside it is an error.
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
        let mut builder = Locks::builder();
        let network = self.0.clone();
        builder.store = Some(Arc::new(move |timeouts| network.open(timeouts)));
        builder
    }

    /// Stops the server: its connections end, and new ones are refused at once. It keeps its data.
    ///
    /// A request is tried again until its `wait` is over; then it fails with an error that
    /// [`is_unavailable`](crate::LockError::is_unavailable). Holders are told that the connection has ended, and keep
    /// their locks until their deadlines. A request that was under way while the server was paused is not executed.
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
        self.0.stop();
    }

    /// Starts a server that was stopped, with its data. Leases that have ended meanwhile have ended.
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
        self.0.start();
    }

    /// The server stands still, as by SIGSTOP, or in a slow script: it takes requests, and does not answer them.
    ///
    /// A request fails after the [`response_timeout`](LocksBuilder::response_timeout), and may be executed all the same,
    /// as [`is_outcome_unknown`](crate::StoreError::is_outcome_unknown) says. The next one finds no connection within
    /// the [`connect_timeout`](LocksBuilder::connect_timeout), and so was not executed. A server that is stopped stays so.
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
    /// let Err(LockError::Store { source, .. }) = locks.lock("order:42").no_wait().await else {
    ///     panic!("it cannot be known who has the lock");
    /// };
    /// assert!(source.is_outcome_unknown());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause(&self) {
        self.0.pause();
    }

    /// A server that was paused goes on: it executes what it has received meanwhile, in that order, and answers those
    /// who still wait for it.
    ///
    /// So an acquisition whose caller has given up may take its lock now. It is released in the background, as after any
    /// answer that was lost.
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
        self.0.resume();
    }

    /// The server loses all its data, as by FLUSHALL; connections stay as they are.
    ///
    /// A holder learns of it when it asks the server next, as late as at its next renewal. Until then another one may be
    /// inside as well: the [fencing token](crate::FencingToken) of that one is greater. A restart without persistence is
    /// [`stop`](Self::stop), this, and [`start`](Self::start): there the holders learn of it at once.
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
        self.0.lose_data();
    }

    /// Steps the clock of the server forward; that of the test goes on as it was. Ten years at most, all steps together.
    ///
    /// Leases end earlier in the store than their holders know, so two may be inside; the
    /// [fencing token](crate::FencingToken) of the later one is greater.
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
        self.0.step_clock_forward(by);
    }

    /// Steps the clock of the server back; that of the test goes on as it was. Ten years at most, all steps together.
    ///
    /// Leases last longer in the store than their holders count on. Tokens grow still, unless the clock goes back by
    /// more than the time since the last acquisition: then a new holder has a smaller token than the one before it, and
    /// what it guards refuses it until the clock has caught up.
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
        self.0.step_clock_back(by);
    }

    /// Cuts the network between the server and one `Locks`, with all its clones: requests and answers, and the messages
    /// to those who wait, are lost, and nothing tells of it. The others go on.
    ///
    /// Its requests fail after the same timeouts as those at a server that is [paused](Self::pause). Its holds are lost
    /// at their deadlines; in the store they stand until their leases end, a little later.
    ///
    /// # Panics
    ///
    /// If the `Locks` is not one of this server.
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
        assert!(self.0.partition(locks.engine().store()), "{FOREIGN}");
    }

    /// Mends the network between the server and a `Locks`. The connections of before have died: new ones are made, and
    /// each hold is verified.
    ///
    /// # Panics
    ///
    /// If the `Locks` is not one of this server.
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
        assert!(self.0.heal(locks.engine().store()), "{FOREIGN}");
    }
}

const FOREIGN: &str = "this `Locks` is not one of this server: make it with `locks` or `builder`";

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! The confirmer, which waits until replicas have what a server has executed.
//!
//! `WAIT` responds for what its own connection has written, and delays whatever comes behind it. So it has a connection
//! of its own, on which a write is sent before it. Replicas that have that write have everything that was executed
//! before it. A write with its `WAIT` is a *round*. All callers that arrive during one round share the next one. They
//! want the same number of replicas, that of their `Locks`.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult, pipe};
use tokio::time::Instant;

use super::context::{Timeouts, with_timeout};
use super::failure::request_error;
use super::script::in_millis;
use super::shared_attempts::SharedAttempt;
use super::source::{RawConnection, Source, open_in_time};
use crate::base::error::StoreError;
use crate::base::options::Confirmation;
use crate::base::sync::Mutex;
use crate::base::timer::{Backoff, Elapsed, after, sleep_until, timeout};

#[cfg(test)]
mod tests;

/// The expiry of the write before each `WAIT`, in milliseconds.
const WRITE_EXPIRY: &str = "100";

/// The limit of one `WAIT`.
const WAIT_LIMIT: Duration = Duration::from_secs(2);

/// The longest pause after a failure, without the jitter, which at most doubles it.
const MAX_ROUND_PAUSE: Duration = Duration::from_millis(300);

/// The confirmer of one server, which asks whether its replicas have what the server has executed.
pub(crate) struct Confirmer {
    /// Opens connections to the server.
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    /// Names the data of that server.
    replication_id: String,
    /// The round in progress. It is a task, so that a caller that is dropped, or no longer polled, delays no other.
    round: SharedAttempt,
    /// The connection, unless a round uses it. Only a round whose responses were all read leaves it to the next one.
    connection: Mutex<Option<RawConnection>>,
    /// The number of rounds that have begun to write. It is the number of the last one.
    written: AtomicU64,
    /// The number of the last round in which enough replicas had the write.
    confirmed: AtomicU64,
    /// Whether another server now responds in the place of the one that was connected to.
    is_another: AtomicBool,
    /// The failure of the last round; `None` if the server has responded.
    failure: Mutex<Option<RoundFailure>>,
}

#[derive(Clone)]
struct RoundFailure {
    error: StoreError,
    /// The instant at which the next round connects. It is the same for all callers, however many ask.
    resume: Instant,
    pauses: Backoff,
}

impl Confirmer {
    /// A confirmer, which connects at the first question.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        timeouts: Timeouts,
        replication_id: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            round: SharedAttempt::default(),
            source,
            timeouts,
            replication_id,
            connection: Mutex::default(),
            written: AtomicU64::default(),
            confirmed: AtomicU64::default(),
            is_another: AtomicBool::default(),
            failure: Mutex::default(),
        })
    }

    /// Waits until this number of replicas has what the server has executed before this call. It is unknown if another
    /// server now responds. An error says why the server cannot be asked.
    pub(crate) async fn confirm(
        self: &Arc<Self>,
        beside: &str,
        replicas: u32,
        within: Duration,
    ) -> Result<Confirmation, StoreError> {
        // A round that writes after this instant writes after whatever the caller has seen executed.
        let before = self.written.load(SeqCst);
        let is_confirmed = || before < self.confirmed.load(SeqCst);
        // Apart from the outcome of the round, which all callers share.
        let rejection = Arc::<OnceLock<StoreError>>::default();
        let Timeouts { connect, response } = self.timeouts;
        // The longest time of a round: its pause, with jitter, the connection, and the responses.
        let limit =
            (2 * MAX_ROUND_PAUSE + WAIT_LIMIT).saturating_add(connect.saturating_add(response));
        let endpoint = self.source.endpoint();
        let round =
            || Arc::clone(self).run_round(beside.to_owned(), replicas, Arc::clone(&rejection));
        let rounds = async {
            // The round in progress may have written before the request of this caller. Then the next one counts.
            while !is_confirmed() {
                self.round.outcome(&endpoint, limit, round).await?;
                if let Some(error) = rejection.get() {
                    return Err(error.clone());
                }
                // This server does not have what the caller wants to have confirmed, however long it waits.
                if self.is_another.load(SeqCst) {
                    return Ok(Confirmation::Unknown);
                }
            }
            Ok(Confirmation::Confirmed)
        };
        let confirmed = timeout(within, rounds).await;
        // If the server could not even be asked, its error says more than that the replicas are late.
        confirmed.unwrap_or_else(|Elapsed| match &*self.failure.lock() {
            Some(it) if Instant::now() < it.resume => Err(it.error.clone()),
            _ => Ok(Confirmation::Late),
        })
    }

    /// Runs one round. An error is that of all callers that wait. A `rejection` of the write concerns only the caller
    /// whose key it names.
    async fn run_round(
        self: Arc<Self>,
        beside: String,
        replicas: u32,
        rejection: Arc<OnceLock<StoreError>>,
    ) -> Result<(), StoreError> {
        // After a failure the server is not asked again at once, however many callers there are.
        let failure = self.failure.lock().clone();
        if let Some(failure) = &failure {
            sleep_until(failure.resume).await;
        }
        // The connection is kept only if all responses on it were read.
        let endpoint = self.source.endpoint();
        let outcome = async {
            // Taken out, so that a round that fails, or ends with its runtime, leaves no unread response to the next
            // one.
            let kept = self.connection.lock().take();
            let mut opened = match kept {
                Some(opened) => opened,
                None => {
                    let timeouts = self.timeouts;
                    open_in_time(&self.source, timeouts, |it| it.open(timeouts)).await?
                }
            };
            let failed = |error| request_error("confirm", &endpoint, error);
            let rejected = self.wait(&mut opened.driver, &beside, replicas).await;
            if let Some(error) = rejected.map_err(failed)? {
                let _ = rejection.set(failed(error));
            }
            *self.connection.lock() = Some(opened);
            Ok(())
        }
        .await;
        *self.failure.lock() = outcome.as_ref().err().map(|error: &StoreError| {
            // The pauses grow from failure to failure. A response ends the series.
            let mut pauses = failure.map_or(Backoff::doubling(MAX_ROUND_PAUSE), |it| it.pauses);
            let resume = after(Instant::now(), pauses.next_pause());
            let error = error.clone();
            RoundFailure {
                error,
                resume,
                pauses,
            }
        });
        outcome
    }

    /// Writes, waits until this number of replicas has the write, and notes whether they have it. Returns the error of
    /// a write that is rejected, for example because its slot is moving, or memory is full.
    async fn wait(
        &self,
        driver: &mut MultiplexedConnection,
        beside: &str,
        replicas: u32,
    ) -> Result<Option<RedisError>, RedisError> {
        // Counted before it is written: who reads the number from now on waits for a later round.
        let number = self.written.fetch_add(1, SeqCst) + 1;
        // The key is in the slot of the caller, which a cluster allows this server to write.
        let key = format!("reentry:confirm:{beside}");
        let mut all = pipe();
        // A replica confirms how far it has read, and not what. So the key may expire at once.
        all.cmd("SET").arg(&[&key, "", "PX", WRITE_EXPIRY]);
        all.cmd("WAIT").arg(replicas).arg(in_millis(WAIT_LIMIT));
        // It comes last, so that a server that was demoted during the WAIT says so.
        all.cmd("INFO").arg("replication").ignore_errors();
        let limit = WAIT_LIMIT.saturating_add(self.timeouts.response);
        let (written, waited, info): (RedisResult<()>, RedisResult<u32>, RedisResult<String>) =
            with_timeout(limit, all.query_async(driver)).await?;
        // Checked first, because a reply of another server says nothing about the write.
        if replication_id(&info?) != Some(&*self.replication_id) {
            // It has not executed what the callers want to have confirmed. It stays set, because no later round of this
            // confirmer can confirm that either.
            self.is_another.store(true, SeqCst);
        } else if let Err(error) = written {
            return Ok(Some(error));
        } else if replicas <= waited? {
            // A round whose runtime was stalled may end after a later one.
            self.confirmed.fetch_max(number, SeqCst);
        }
        Ok(None)
    }
}

/// Reads the `master_replid` of a server from its response to `INFO replication`. It names the data of the server, and
/// changes with each failover and each restart. `None` unless the server is a primary, because a replica gives the ID of
/// its primary.
pub(crate) fn replication_id(info: &str) -> Option<&str> {
    let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    of("master_replid:").filter(|_| of("role:") == Some("master"))
}

//! The wait for the locks, and its messages.
//!
//! A server that rejects requests from the beginning may do so for ever, for example a replica, or a server with a full
//! memory or too few replicas. So its first response ends the run. If another holder has the lock at first, the run
//! waits without a limit, whatever happens.

use std::time::Duration;

use anyhow::bail;
use reentry::{__admin, LockError, Locks};
use tokio::time::{Instant, sleep};

use super::lock::{Lock, say};
use super::options::Options;
use crate::exit::NotAcquired;
use crate::text::printable;
use crate::view::LockView;

/// The time after which a run prints that it waits.
const SILENT: Duration = Duration::from_secs(1);

/// The interval at which the run checks the response of the server.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits for the locks of these keys.
pub(crate) async fn acquire(
    locks: &Locks,
    keys: &[String],
    options: &Options,
) -> Result<Lock, LockError> {
    tokio::select! {
        lock = Lock::acquire(locks, keys, options) => lock,
        refusal = Waiting::new(locks, keys, options).until_refused() => Err(refusal),
    }
}

/// A run that waits.
struct Waiting<'a> {
    locks: &'a Locks,
    keys: &'a [String],
    is_quiet: bool,
    since: Instant,
    /// Whether the server has said that a lock is held. Such a server would also grant a lock.
    is_held: bool,
    has_said_holder: bool,
    has_said_error: bool,
}

impl<'a> Waiting<'a> {
    fn new(locks: &'a Locks, keys: &'a [String], options: &Options) -> Self {
        Self {
            locks,
            keys,
            is_quiet: options.quiet,
            since: Instant::now(),
            is_held: false,
            has_said_holder: false,
            has_said_error: false,
        }
    }

    /// Returns the error of the server, if the server has never said that a lock is held.
    async fn until_refused(mut self) -> LockError {
        loop {
            sleep(POLL_INTERVAL).await;
            // Several locks are waited for one after the other.
            let answered = |key: &'a String| Some((key, __admin::last_answer(self.locks, key)?));
            match self.keys.iter().find_map(answered) {
                None => {}
                Some((key, Ok(()))) => {
                    self.is_held = true;
                    if !self.is_quiet && !self.has_said_holder && self.since.elapsed() >= SILENT {
                        self.has_said_holder = true;
                        self.say_holder(key).await;
                    }
                }
                Some((_, Err(error))) if !self.is_held && !is_unknown(&error) => return error,
                Some((key, Err(error))) if !self.is_quiet && !self.has_said_error => {
                    self.has_said_error = true;
                    let error = format!("{:#}", anyhow::Error::new(error));
                    let (key, error) = (printable(key), printable(&error));
                    say(&format!("waiting for `{key}`, despite an error: {error}"));
                }
                Some((_, Err(_))) => {}
            }
        }
    }

    async fn say_holder(&self, key: &str) {
        let holder = inspect(self.locks, key).await;
        let holder = holder.map_or(String::new(), |lock| format!(", {}", lock.held_by()));
        say(&format!("waiting for `{}`{holder}", printable(key)));
    }
}

/// The lock, if the server says that it is held.
async fn inspect(locks: &Locks, key: &str) -> Option<LockView> {
    let info = locks.admin().inspect(key).await.ok()??;
    Some(LockView::of(key, info))
}

/// The error of a lock that others hold, which says who they are.
pub(super) async fn busy(locks: &Locks, error: LockError) -> anyhow::Error {
    let LockError::Busy { key, waited, .. } = &error else {
        return error.into();
    };
    let Some(lock) = inspect(locks, key).await else {
        return error.into();
    };
    let gave_up = match waited.is_zero() {
        true => String::new(),
        false => format!(": gave up after {waited:.1?}"),
    };
    NotAcquired(format!("`{key}` is {}{gave_up}", lock.held_by())).into()
}

/// Refuses to enter among holders that have another number of permits, because more might be inside than one of the
/// numbers allows. The description of a holder may be missing, or change right after this. So it finds mistakes, and is
/// no bound.
pub(super) async fn check_permits(locks: &Locks, key: &str, permits: u32) -> anyhow::Result<()> {
    let lock = inspect(locks, key).await;
    let holders = lock.iter().flat_map(|lock| &lock.holders);
    let mut named = holders.filter_map(|holder| Some((holder.permits?, holder.process.as_ref()?)));
    if let Some((other, process)) = named.find(|(other, _)| *other != u64::from(permits)) {
        let (key, process) = (printable(key), process.words());
        bail!(
            "`{key}` has `--permits {other}` for {process}, and `--permits {permits}` here: use the same number \
             everywhere, or wait until that one has ended"
        );
    }
    Ok(())
}

/// Whether the request may have been executed. Such an error is no rejection.
fn is_unknown(error: &LockError) -> bool {
    matches!(error, LockError::Unavailable { source, .. } if source.is_outcome_unknown())
}

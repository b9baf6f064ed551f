//! The locks of `run` and `hold`, and the wait for them.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | the options of an acquisition, and what an acquisition is asked for |
//! | `lock` | the locks of one process |
//! | `waiting` | the wait for the locks, as long as the server does not reject them |
//! | `enclosing` | the runs inside which this process was started |

pub(crate) mod enclosing;
pub(crate) mod lock;
pub(crate) mod options;
mod waiting;

use std::time::Duration;

use anyhow::{bail, ensure};
use reentry::{__admin, Locks};
use tokio::time::{Instant, timeout};

use self::enclosing::{Enclosing, HeldKey};
use self::lock::Lock;
use self::options::{AcquireSpec, Options};
use crate::args::Global;
use crate::connect;
use crate::exit::{Exit, Failure};
use crate::note::Note;
use crate::signals::Signals;

/// The least time for which a command with a `--timeout` waits for its lock.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// The time limit for the last requests to the server: places in queues, and releases without a response.
const LAST_REQUESTS_TIMEOUT: Duration = Duration::from_secs(1);

/// The end of a wait.
pub(crate) enum Taken {
    Locks(Box<Acquired>),
    /// The enclosing runs hold all the keys.
    Reentered(Vec<HeldKey>),
    /// A signal ended the wait.
    Signal(i32),
}

/// Locks that this process has acquired.
pub(crate) struct Acquired {
    pub(crate) lock: Lock,
    pub(crate) locks: Locks,
    pub(crate) enclosing: Enclosing,
    /// The other keys, which the enclosing runs hold.
    pub(crate) reentered: Vec<HeldKey>,
}

/// Connects, and waits for the locks.
pub(crate) async fn take(
    spec: &AcquireSpec<'_>,
    global: &Global,
    signals: &mut Signals,
) -> anyhow::Result<Taken> {
    let enclosing = Enclosing::of_environment();
    let builder = __admin::with_outer_holds(connect::builder(global)?, enclosing.holds());
    let builder = builder.name(&*spec.name);
    if let Some(permits) = spec.options.permits {
        Note::Permits(permits.into()).set();
    }
    let limit = spec.options.timeout.filter(|limit| !limit.is_zero());
    let connecting = limit.unwrap_or(Duration::MAX).min(global.connect_timeout);
    let begun = Instant::now();
    let locks = tokio::select! {
        locks = builder.connect_timeout(connecting).build() => locks?,
        number = signals.end() => return Ok(Taken::Signal(number)),
    };
    // What is left is for the wait. A wait of zero would be none.
    let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()).max(MIN_WAIT));
    let options = Options {
        timeout: left.or(spec.options.timeout),
        ..spec.options.clone()
    };
    let reentered = enclosing.held(spec.keys, global, &locks).await?;
    check_reentry(&reentered, spec)?;
    let is_held = |key: &&String| reentered.iter().any(|held| held.key == **key);
    let wanted = spec.keys.iter().filter(|key| !is_held(key));
    let wanted: Vec<_> = wanted.cloned().collect();
    if options.verbose && !reentered.is_empty() {
        lock::report_reentered(&reentered);
    }
    if wanted.is_empty() {
        locks.close(LAST_REQUESTS_TIMEOUT).await;
        return Ok(Taken::Reentered(reentered));
    }
    if let ([key], Some(permits)) = (&wanted[..], options.permits) {
        waiting::check_permits(&locks, key, permits).await?;
    }
    let lock = tokio::select! {
        lock = waiting::acquire(&locks, &wanted, &options) => lock,
        number = signals.end() => {
            give_up(&locks).await;
            return Ok(Taken::Signal(number));
        }
    };
    let lock = match lock {
        Ok(lock) => lock,
        Err(error) => {
            let error = match options.quiet {
                true => error.into(),
                false => waiting::busy(&locks, error).await,
            };
            give_up(&locks).await;
            return Err(error);
        }
    };
    if options.verbose {
        lock.report();
    }
    Ok(Taken::Locks(Box::new(Acquired {
        lock,
        locks,
        enclosing,
        reentered,
    })))
}

/// Leaves after a loss. The lease of a single lock is over, so there is nothing to release: the program ends immediately. Of
/// several locks the others are still held.
pub(crate) async fn leave_lost(lock: Lock) {
    if lock.keys().len() > 1 {
        let _ = timeout(LAST_REQUESTS_TIMEOUT, lock.release()).await;
    }
}

/// Leaves the server after the release of these locks. Prints a message if the server did not respond to the release.
/// Locks whose minimum time is not over are left to their leases, unless nothing was done under them.
pub(crate) async fn leave(locks: &Locks, keys: &[String], options: &Options, reports: bool) {
    let kept = options.min_hold.filter(|_| reports);
    if let Some(min_hold) = kept {
        // Nothing else would say why the lock is held, and until when.
        let millis = u64::try_from(min_hold.as_millis()).unwrap_or(u64::MAX);
        Note::Kept(millis).set();
        let _ = timeout(LAST_REQUESTS_TIMEOUT, __admin::describe(locks)).await;
    }
    let left = locks.close(kept.map_or(LAST_REQUESTS_TIMEOUT, |_| Duration::ZERO));
    let left = left.await;
    if !left.is_clean() && reports && !options.quiet {
        lock::say_unanswered(keys, options.ttl);
    }
}

/// The end of the program. A lock that was not acquired has its own exit code, and no message with `--quiet`.
pub(crate) fn ended(
    ended: anyhow::Result<Exit>,
    options: &Options,
    global: &Global,
) -> anyhow::Result<Exit> {
    match ended {
        Err(error) if Exit::of(&error) == Exit::NotAcquired => {
            let code = options.conflict_exit_code;
            let exit = code.map_or(Exit::NotAcquired, Exit::Code);
            if !options.quiet {
                Failure::new(error, global.json).ending_with(exit).say();
            }
            Ok(exit)
        }
        ended => ended,
    }
}

/// Checks whether a process may re-enter the locks of the enclosing runs.
fn check_reentry(held: &[HeldKey], spec: &AcquireSpec<'_>) -> anyhow::Result<()> {
    let Some(HeldKey { key, is_shared, .. }) = held.first() else {
        return Ok(());
    };
    let never = match (is_shared, spec.options.permits) {
        (true, Some(_)) => "another permit might never become free",
        _ => "would never become free",
    };
    match spec.reenters {
        Some(true) => {}
        Some(false) => bail!(
            "`{key}` is held by the enclosing `reentry run`, and {never}: run the inner command without `reentry run`, \
             or with `--reenter`"
        ),
        None => bail!(
            "`{key}` is held by the enclosing `reentry run`, and {never}: a second hold is not needed"
        ),
    }
    let is_shared = |held: &&HeldKey| held.is_shared && !spec.options.shares();
    let alone = held.iter().find(is_shared).map(|held| &held.key);
    ensure!(
        alone.is_none(),
        "`{}` is shared by the enclosing `reentry run`, and could never be held exclusively: run the inner command \
         with `--shared`",
        alone.map_or("", |key| key)
    );
    Ok(())
}

/// Leaves the queue, and releases a lock that was acquired but whose response never arrived.
async fn give_up(locks: &Locks) {
    locks.close(LAST_REQUESTS_TIMEOUT).await;
}

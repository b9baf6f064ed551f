//! `reentry run`: a command under a lock.
//!
//! | file | what it is |
//! |---|---|
//! | `args` | its arguments |
//! | `lock` | the locks of the command |
//! | `waiting` | the wait for the locks, as long as the server does not reject them |
//! | `steps` | the state machine: the effect of each event of a run |
//! | `supervise` | the shell of the state machine: it reads the events and performs the actions |
//! | `command` | the command as a process: its start, its end, its environment |
//! | `tree` | all processes that the command has started |
//! | `orphans` | processes that the kernel gives to this one, in a container |
//! | `guard` | the process that ends them if this one is killed |
//! | `enclosing` | the runs inside which this run was started |

mod args;
mod command;
mod enclosing;
pub(crate) mod guard;
mod lock;
mod orphans;
mod steps;
mod supervise;
mod tree;
mod waiting;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};
use reentry::{__admin, Locks};
use tokio::time::{Instant, timeout};

pub(crate) use self::args::Args;
use self::command::Command;
use self::enclosing::{Enclosing, HeldKey};
use self::supervise::Outcome;
use crate::args::Global;
use crate::connect;
use crate::exit::{Exit, Failure};
use crate::signals::Signals;

/// The least time for which a command with a `--timeout` waits for its lock.
const LEAST: Duration = Duration::from_millis(1);

/// The time limit for the farewell to the server: places in queues, and releases without an answer.
const FAREWELL: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    match under_lock(&args, global).await {
        Err(error) if Exit::of(&error) == Exit::NotAcquired => {
            let code = args.conflict_exit_code;
            let exit = code.map_or(Exit::NotAcquired, Exit::Code);
            if !args.quiet {
                Failure::new(error, global.json).ending_with(exit).say();
            }
            Ok(exit)
        }
        ended => ended,
    }
}

/// Checks whether a run may re-enter the locks of the runs around it.
fn check_reentry(held: &[HeldKey], args: &Args) -> anyhow::Result<()> {
    let Some(HeldKey { key, .. }) = held.first() else {
        return Ok(());
    };
    ensure!(
        args.reenter,
        "`{key}` is held by the `reentry run` that this one runs in, and would never be free: run the inner command \
         without it, or with `--reenter`"
    );
    match held.iter().find(|held| held.is_shared && !args.shared) {
        Some(HeldKey { key, .. }) => bail!(
            "`{key}` is shared by the `reentry run` that this one runs in, and would never be its alone: run the \
             inner command with `--shared`"
        ),
        None => Ok(()),
    }
}

/// The name of the process for those who look at its locks: that of the command, without its arguments, which may contain
/// a password.
fn name(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    let program = program.unwrap_or_default().to_string_lossy();
    format!("reentry run {program}")
}

/// Leaves the queue, and releases a lock that was acquired but whose answer never came.
async fn give_up(locks: &Locks) {
    // No lock is held that `close_within` would have to end.
    let _ = timeout(FAREWELL, locks.close()).await;
}

async fn under_lock(args: &Args, global: &Global) -> anyhow::Result<Exit> {
    let mut signals = Signals::register()?;
    let enclosing = Enclosing::of_environment();
    let builder = __admin::inside(connect::builder(global)?, enclosing.holds());
    let builder = builder.name(name(&args.command));
    let limit = args.timeout.filter(|limit| !limit.is_zero());
    let connecting = limit.unwrap_or(Duration::MAX).min(global.connect_timeout);
    let begun = Instant::now();
    let locks = tokio::select! {
        locks = builder.connect_timeout(connecting).build() => locks?,
        number = signals.end() => return Ok(Exit::Signal(number)),
    };
    // What is left is for the wait. A wait of zero would be none.
    let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()).max(LEAST));
    let mut args = args.clone();
    args.timeout = left.or(args.timeout);
    let args = &args;
    let held = enclosing.held(&args.keys, global, &locks).await?;
    check_reentry(&held, args)?;
    let is_held = |key: &&String| held.iter().any(|held| held.key == **key);
    let wanted = args.keys.iter().filter(|key| !is_held(key));
    let wanted: Vec<_> = wanted.cloned().collect();
    if args.verbose && !held.is_empty() {
        lock::tell_reentered(&held);
    }
    if wanted.is_empty() {
        locks.close_within(FAREWELL).await;
        return Ok(Command::reenter(&args.command, &held).into_exit(global));
    }
    let lock = tokio::select! {
        lock = waiting::acquire(&locks, &wanted, args) => lock,
        number = signals.end() => {
            give_up(&locks).await;
            return Ok(Exit::Signal(number));
        }
    };
    let lock = match lock {
        Ok(lock) => lock,
        Err(error) => {
            give_up(&locks).await;
            return Err(error.into());
        }
    };
    if args.verbose {
        lock.tell();
    }
    let started = Command::start(
        &args.command,
        &lock,
        &held,
        &enclosing,
        global,
        args.grace_of_guard(),
    );
    let ended = match started {
        Ok(command) => Ok(supervise::until_end(command, &lock, &mut signals, args.grace()).await),
        Err(refused) => Err(refused),
    };
    let released = match ended.is_err() && args.min_hold.is_some() {
        true => lock.give_back().await,
        false => lock.release().await,
    };
    let left = locks.close_within(FAREWELL).await;
    if !left.is_clean() && matches!(ended, Ok(Outcome::Ended(_))) {
        lock::say_unanswered(&wanted, args.ttl);
    }
    match ended {
        Ok(Outcome::Lost(error)) => Err(error.into()),
        Ok(Outcome::Ended(ended)) => match released {
            // The server took the lock away while the command ran, and reports it now.
            Err(error) if error.is_lost() => Err(error.into()),
            // The command has ended under a valid lease, so its result is valid.
            Err(error) => {
                let failure = Failure::new(error.into(), global.json);
                Ok(failure.ending_with(ended.into()).say())
            }
            Ok(()) => Ok(ended.into()),
        },
        Err(refused) => {
            let exit = refused.into_exit(global);
            if let Err(error) = released {
                Failure::new(error.into(), global.json)
                    .ending_with(exit)
                    .say();
            }
            Ok(exit)
        }
    }
}

//! `reentry run`: a command under a lock.
//!
//! | file | what it is |
//! |---|---|
//! | `lock` | the locks that the command runs under |
//! | `signals` | what this process is sent, and by whom |
//! | `steps` | the state machine: what each event of a run leads to |
//! | `supervise` | brings it the events, and does what it answers |
//! | `command` | the command as a process: its start, its end, its environment |
//! | `tree` | all processes that the command has started |
//! | `guard` | the process that ends them if this one is killed |
//! | `enclosing` | the runs that this one runs in |

mod command;
mod enclosing;
pub(crate) mod guard;
mod lock;
mod signals;
mod steps;
mod supervise;
mod tree;

use std::{ffi::OsString, time::Duration};

use anyhow::bail;

use self::{command::Command, enclosing::Enclosing, lock::Lock, signals::Signals, steps::Outcome};
use crate::{
    args::{Global, duration},
    connect,
    exit::{Exit, Failure},
};

/// How long the farewell to the server may take: places in queues, and releases that were not answered.
const FAREWELL: Duration = Duration::from_secs(1);

/// Run a command under a lock, like flock(1)
///
/// Takes the lock, runs the command while the lease is renewed, and releases the lock. The command has these
/// variables: REENTRY_KEY, REENTRY_TOKEN (the fencing token), REENTRY_HOLD (the identity of the hold). Of several keys the
/// first two have one line for each.
///
/// Signals go to the command; SIGINT, SIGQUIT and SIGTERM to all processes that it has started. If the lock is
/// lost, all of them get SIGTERM, and after `--grace` SIGKILL.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The lock to take; several are taken all together or not at all
    #[arg(short, long = "key", value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// How long the lock outlives this process if it dies; renewed every third of it
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    ttl: Duration,
    /// Give up after waiting so long; without it the command waits as long as it takes
    #[arg(short = 'w', long, visible_alias = "wait", value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Give up at once if the lock is not free
    #[arg(short, long, conflicts_with = "timeout")]
    nonblock: bool,
    /// Share the lock with other runs that have this option; the others wait for all of them
    #[arg(short, long)]
    shared: bool,
    /// Keep the lock for so long at least, counted from its acquisition, though the command ends earlier
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "shared")]
    min_hold: Option<Duration>,
    /// How long the command has between SIGTERM and SIGKILL when the lock is lost
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    grace: Duration,
    /// The exit code if the lock is not acquired, instead of 124
    #[arg(short = 'E', long, value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    /// Say on standard error what is waited for, and what was acquired
    #[arg(short, long)]
    verbose: bool,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXIT_CODES: &str = "\
Exit codes:
    that of the command, or 128 + n if signal n has ended it
    122  the server cannot be reached, or refuses
    123  the lock was lost; the command was ended
    124  the lock was not acquired within --timeout, or with --nonblock at once
    125  reentry itself failed, as by wrong arguments
    126  the command cannot be executed
    127  the command was not found";

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let ended = under_lock(&args, global).await;
    match (ended, args.conflict_exit_code) {
        (Err(error), Some(code)) if Exit::of(&error) == Exit::NotAcquired => {
            Failure::new(error, global.json).say();
            Ok(Exit::Code(code))
        }
        (ended, _) => ended,
    }
}

async fn under_lock(args: &Args, global: &Global) -> anyhow::Result<Exit> {
    let mut signals = Signals::register()?;
    let locks = tokio::select! {
        locks = connect::locks(global) => locks?,
        number = signals.end() => return Ok(Exit::Signal(number)),
    };
    let enclosing = Enclosing::of_environment();
    if let Some(key) = enclosing.holds_one_of(&args.keys, global, &locks).await? {
        bail!(
            "`{key}` is held by the `reentry run` that this one runs in, and would never be free: run the inner \
             command without it"
        );
    }
    let lock = tokio::select! {
        lock = Lock::acquire(&locks, args) => lock,
        number = signals.end() => {
            locks.close_within(FAREWELL).await;
            return Ok(Exit::Signal(number));
        }
    };
    let lock = match lock {
        Ok(lock) => lock,
        Err(error) => {
            locks.close_within(FAREWELL).await;
            return Err(error.into());
        }
    };
    if args.verbose {
        lock.tell();
    }
    let started = Command::start(&args.command, &lock, &enclosing, global, args.grace);
    let ended = match started {
        Ok(command) => supervise::until_end(command, &lock, &mut signals, args.grace).await,
        Err(refused) => Ok(Outcome::NotStarted(refused)),
    };
    let released = lock.release().await;
    locks.close_within(FAREWELL).await;
    match ended? {
        Outcome::Lost(error) => Err(error.into()),
        Outcome::Ended(ended) => {
            // The command has ended under a valid lease: its result stands.
            if let Err(error) = released {
                Failure::new(error.into(), global.json).say();
            }
            Ok(ended.into())
        }
        Outcome::NotStarted(refused) => refused.into_exit(global),
    }
}

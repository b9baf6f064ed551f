//! `reentry run`: a command under a lock.
//!
//! | file | what it is |
//! |---|---|
//! | `args` | its arguments |
//! | `words` | the key and the command among the words |
//! | `steps` | the state machine: the effect of each event of a run |
//! | `supervise` | the shell of the state machine: it reads the events and performs the actions |
//! | `command` | the command as a process: its start, its end, its environment |
//! | `tree` | all processes that the command has started |
//! | `orphans` | processes that the kernel gives to this one, in a container |
//! | `guard` | the process that ends them if this one is killed |

mod args;
mod command;
pub(crate) mod guard;
mod orphans;
mod steps;
mod supervise;
mod tree;
mod words;

use std::ffi::OsString;
use std::path::Path;

use reentry::LockError;

pub(crate) use self::args::Args;
use self::command::{Command, NotStarted};
use self::steps::Ended;
use self::supervise::Outcome;
use self::words::Task;
use crate::acquire::options::AcquireSpec;
use crate::acquire::{self, Acquired, Taken};
use crate::args::Global;
use crate::exit::{Exit, Failure};
use crate::signals::Signals;

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let task = words::task(&args)?;
    let ended = under_lock(&task, &args, global).await;
    acquire::ended(ended, &args.options, global)
}

/// The name of the process in inspections of its locks: that of the command, without its arguments, which may contain a
/// password.
fn name(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name);
    program.unwrap_or_default().to_string_lossy().into_owned()
}

async fn under_lock(task: &Task, args: &Args, global: &Global) -> anyhow::Result<Exit> {
    global.read_password()?;
    let mut signals = Signals::register()?;
    let name = name(&task.command);
    let spec = AcquireSpec::new(&task.keys, &args.options, name, Some(args.reenter))?;
    let acquired = match acquire::take(&spec, global, &mut signals).await? {
        Taken::Locks(acquired) => acquired,
        Taken::Reentered(held) => {
            return Ok(Command::reenter(&task.command, &held).into_exit(global));
        }
        Taken::Signal(number) => return Ok(Exit::Signal(number)),
    };
    let started = Command::start(&task.command, &acquired, args, global);
    let Acquired { lock, locks, .. } = *acquired;
    let keys: Vec<_> = lock.keys().into_iter().map(str::to_owned).collect();
    let ended = match started {
        Ok(command) => {
            match supervise::until_end(command, &lock, &mut signals, args.grace()).await {
                Outcome::Ended(ended) => Ok(ended),
                Outcome::Lost(error) => {
                    acquire::leave_lost(lock).await;
                    return Err(error.into());
                }
            }
        }
        Err(refused) => Err(refused),
    };
    let released = match ended.is_err() {
        true => lock.give_back().await,
        false => lock.release().await,
    };
    acquire::leave(&locks, &keys, &args.options, ended.is_ok()).await;
    outcome(ended, released, args, global)
}

/// The end of the run, by the end of the command and the release of its locks.
fn outcome(
    ended: Result<Ended, NotStarted>,
    released: Result<(), LockError>,
    args: &Args,
    global: &Global,
) -> anyhow::Result<Exit> {
    let say = |error: LockError, exit| {
        if !args.options.quiet {
            let failure = Failure::new(error.into(), global.json);
            failure.ending_with(exit).say();
        }
        Ok(exit)
    };
    match (ended, released) {
        // The server took the lock away while the command ran, and reports it now.
        (Ok(_), Err(error)) if error.is_lost() => Err(error.into()),
        // The command ended under a valid lease, so its result is valid.
        (Ok(ended), Err(error)) => say(error, ended.into()),
        (Ok(ended), Ok(())) => Ok(ended.into()),
        (Err(refused), released) => {
            let exit = refused.into_exit(global);
            released.map_or_else(|error| say(error, exit), |()| Ok(exit))
        }
    }
}

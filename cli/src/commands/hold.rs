//! `reentry hold`: a lock that is held for a script, until the input ends.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Read, stdin};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::acquire::lock::Lock;
use crate::acquire::options::{AcquireSpec, Options};
use crate::acquire::{self, Acquired, Taken};
use crate::args::Global;
use crate::exit::Exit;
use crate::output;
use crate::signals::Signals;
use crate::text::printable;

/// Hold a lock for a script, until the standard input ends
///
/// Acquires the lock, and prints a line with the fencing token, the identity of the hold and the key. Renews the lease
/// until its standard input ends, or a signal arrives. Then it releases the lock. With several keys, it prints one line
/// for each key.
///
/// If the lock is lost, it exits immediately with 123. It cannot terminate the script. So the script must check whether
/// `reentry hold` still runs. `reentry run`, on the other hand, terminates its command.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Key of the lock; several locks are acquired together, all or none
    #[arg(value_name = "KEY", required_unless_present = "named")]
    keys: Vec<String>,
    /// A further key, as with `reentry run`
    #[arg(short = 'k', long = "key", value_name = "KEY")]
    named: Vec<String>,
    #[command(flatten)]
    options: Options,
}

const EXIT_CODES: &str = "\
Exit codes:
    0    the input has ended, and the lock was released
    122  Redis is unavailable: it does not respond, or rejects requests for now
    123  the lock was lost
    124  the lock was not acquired within --timeout, or immediately with --nonblock
    125  reentry itself failed, for example because of invalid arguments
    128 + n if signal n terminated it";

/// The name of the process in inspections of its locks.
const NAME: &str = "reentry-hold";

/// The interval at which a background process checks whether it may read from its terminal.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The end of a hold.
enum End {
    Input,
    Signal(i32),
    Failed(anyhow::Error),
}

pub(crate) async fn run(args: &Args, global: &Global) -> anyhow::Result<Exit> {
    acquire::ended(hold(args, global).await, &args.options, global)
}

async fn hold(args: &Args, global: &Global) -> anyhow::Result<Exit> {
    global.read_password()?;
    let mut signals = Signals::register()?;
    let keys = [&*args.keys, &args.named].concat();
    let spec = AcquireSpec::new(&keys, &args.options, NAME.to_owned(), None)?;
    let acquired = match acquire::take(&spec, global, &mut signals).await? {
        Taken::Locks(acquired) => acquired,
        // No option allows it.
        Taken::Reentered(_) => return Ok(Exit::Failed),
        Taken::Signal(number) => return Ok(Exit::Signal(number)),
    };
    let Acquired { lock, locks, .. } = *acquired;
    let end = match print(&lock, global) {
        Ok(()) => until_end(&lock, &mut signals).await,
        Err(error) => End::Failed(anyhow::Error::new(error).context("cannot print the token")),
    };
    // A process that was stopped for longer than its lease may see another end before the loss.
    if let Some(error) = lock.loss().await {
        acquire::leave_lost(lock).await;
        return Err(error.into());
    }
    let released = lock.release().await;
    acquire::leave(&locks, &keys, &args.options, true).await;
    match end {
        End::Failed(error) => Err(error),
        End::Signal(number) => Ok(Exit::Signal(number)),
        End::Input => Ok(released.map(|()| Exit::Success)?),
    }
}

/// Waits for the first end. A loss counts as an end of the input: the caller checks for it.
async fn until_end(lock: &Lock, signals: &mut Signals) -> End {
    tokio::select! {
        biased;
        _ = lock.lost() => End::Input,
        number = signals.end() => End::Signal(number),
        input = input_ends() => match input {
            Ok(()) => End::Input,
            Err(error) => End::Failed(error),
        },
    }
}

/// Waits for the end of the standard input. The thread that reads it ends together with the program.
async fn input_ends() -> anyhow::Result<()> {
    let (sender, ended) = oneshot::channel();
    thread::Builder::new().spawn(move || {
        // Without a receiver the program ends.
        let _ = sender.send(read_to_end());
    })?;
    let ended = ended
        .await
        .context("the standard input is no longer read")?;
    ended.context("cannot read the standard input")
}

/// Reads the standard input to its end, and keeps nothing of it.
fn read_to_end() -> io::Result<()> {
    let mut input = stdin().lock();
    let mut read = [0; 4096];
    loop {
        if is_in_background() {
            thread::sleep(POLL_INTERVAL);
            continue;
        }
        match input.read(&mut read) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process has made it non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(POLL_INTERVAL),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a read from the terminal would stop this process.
fn is_in_background() -> bool {
    let input = stdin();
    input.is_terminal() && tcgetpgrp(&input).is_ok_and(|group| group != getpgrp())
}

/// Prints the locks, a line for each.
fn print(lock: &Lock, global: &Global) -> io::Result<()> {
    for (key, hold, token) in lock.holds() {
        let held = HeldLock {
            key,
            token: token.into(),
            hold_id: hold.to_string(),
        };
        output::print(global, &held)?;
    }
    Ok(())
}

/// A lock as it is printed.
#[derive(Debug, Serialize)]
struct HeldLock<'a> {
    key: &'a str,
    token: u64,
    hold_id: String,
}

impl fmt::Display for HeldLock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            token,
            hold_id,
        } = self;
        write!(f, "{token} {hold_id} {}", printable(key))
    }
}

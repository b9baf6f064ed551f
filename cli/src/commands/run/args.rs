//! The arguments of `reentry run`.

use std::ffi::OsString;
use std::time::Duration;

use crate::acquire::options::Options;
use crate::args::duration;

/// Run a command under a lock, like flock(1)
///
/// Acquires the lock, runs the command while the lease is renewed, and releases the lock. The command has these
/// environment variables: REENTRY_KEY, REENTRY_TOKEN (the fencing token), REENTRY_HOLD (the identity of the hold). With
/// several keys, the first two have one line for each key.
///
/// Without --key, the first word is the key, and the command follows it. The `--` before the command can be omitted if
/// the command does not begin with `-`. All options of `reentry` come before the key. With --key, the first word is the
/// command.
///
/// Signals are passed on to the command. SIGINT, SIGQUIT and SIGTERM are passed on to all processes that it has
/// started. If the lock is lost, all of them get SIGTERM, and SIGKILL after `--grace`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES, override_usage = USAGE)]
pub(crate) struct Args {
    /// Key, instead of the first word; several: all or none
    #[arg(short, long = "key", value_name = "KEY")]
    pub(super) keys: Vec<String>,
    /// Run this line with `sh -c`
    #[arg(short = 'c', long = "command", value_name = "LINE")]
    pub(super) line: Option<OsString>,
    #[command(flatten)]
    pub(super) options: Options,
    /// Time between SIGTERM and SIGKILL when the lock is lost
    ///
    /// The default is 5s, or a third of --ttl if that is less. It is at most a third of --ttl if this process is killed.
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = duration)]
    grace: Option<Duration>,
    /// Enter a lock that an enclosing run holds
    ///
    /// Without this option that is an error, because the lock would never become free.
    #[arg(long)]
    pub(super) reenter: bool,
    /// Key, unless --key is used, and command with its arguments, unless -c is used
    #[arg(hide_short_help = true, trailing_var_arg = true, value_name = "WORD")]
    pub(super) words: Vec<OsString>,
}

const USAGE: &str = "reentry run [OPTIONS] <KEY> [--] <COMMAND>...
       reentry run [OPTIONS] --key <KEY>... [--] <COMMAND>...
       reentry run [OPTIONS] -c <LINE> <KEY>";

/// The grace period, if a third of the TTL is not shorter.
const GRACE: Duration = Duration::from_secs(5);

impl Args {
    /// The time that the command has when the lock is lost.
    pub(super) fn grace(&self) -> Duration {
        self.grace.unwrap_or(GRACE.min(self.options.ttl / 3))
    }

    /// The time that the command has when this process was killed and nothing renews the lease. The lease lasts for at
    /// least two thirds of the TTL if the last renewal was in time, and for one third if one renewal failed.
    pub(super) fn grace_of_guard(&self) -> Duration {
        self.grace().min(self.options.ttl / 3)
    }
}

const EXIT_CODES: &str = "\
Exit codes:
    the exit code of the command, or 128 + n if signal n killed it
    122  Redis is unavailable: it does not respond, or rejects requests for now
    123  the lock was lost, and the command was terminated
    124  the lock was not acquired within --timeout, or immediately with --nonblock
    125  reentry itself failed, for example because of invalid arguments
    126  the command cannot be executed
    127  the command was not found";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_killed_run_leaves_its_command_no_longer_than_the_lease() {
        for (options, grace, of_guard) in [
            (&[][..], 5_000, 5_000),
            (&["--ttl", "3s"], 1_000, 1_000),
            (&["--ttl", "3s", "--grace", "1h"], 3_600_000, 1_000),
            (&["--ttl", "3s", "--grace", "0"], 0, 0),
        ] {
            let words = [&["run", "-k", "a"], options, &["--", "true"]].concat();
            let args = Run::parse_from(words).args;
            let is = (args.grace(), args.grace_of_guard());
            let expected = (grace, of_guard);
            assert_eq!(
                (is.0.as_millis(), is.1.as_millis()),
                expected,
                "{options:?}"
            );
        }
    }
}

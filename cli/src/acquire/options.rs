//! The options of an acquisition.

use std::time::Duration;

use anyhow::ensure;

use crate::args::duration;

/// The options that `run` and `hold` have in common.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How long others wait if this one dies
    ///
    /// This is the lease of the lock. It is renewed after every third of this time.
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// Give up after this time
    ///
    /// It includes the time to connect. Without this option, the wait has no limit.
    #[arg(short = 'w', long, visible_alias = "wait", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Give up at once if the lock is not free
    #[arg(short, long, conflicts_with = "timeout")]
    pub(crate) nonblock: bool,
    /// Share the lock with others that use this option
    ///
    /// Those without it wait for all of them.
    #[arg(short, long)]
    pub(crate) shared: bool,
    /// Let N of them in at the same time
    ///
    /// It acquires one of N permits of the key. Use the same N everywhere: a run that finds another N inside is
    /// refused.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["shared", "min_hold"]
    )]
    pub(crate) permits: Option<u32>,
    /// Keep the lock for at least this time
    ///
    /// It counts from the acquisition, and raises --ttl to it. `reentry show` says when a lock is kept.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "shared")]
    pub(crate) min_hold: Option<Duration>,
    /// Exit code if the lock is not acquired, instead of 124
    #[arg(hide_short_help = true, short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Say what is waited for, and what was acquired
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Say nothing if the lock is busy, or was waited for
    ///
    /// Prints nothing on standard error, except an error that explains the exit code 122, 123, 125, 126 or 127. If the lock is not acquired, only the exit code shows it, which suits a cron job. The output of the command is
    /// not changed.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

impl Options {
    /// Whether others may be inside at the same time.
    pub(crate) fn shares(&self) -> bool {
        self.shared || self.permits.is_some()
    }
}

/// The locks that a process wants.
pub(crate) struct AcquireSpec<'a> {
    pub(crate) keys: &'a [String],
    pub(crate) options: &'a Options,
    /// The name of this process in inspections of its locks.
    pub(crate) name: String,
    /// Whether the locks of the enclosing runs are entered once more; `None` where that is not an option.
    pub(crate) reenters: Option<bool>,
}

impl<'a> AcquireSpec<'a> {
    /// # Errors
    ///
    /// Several keys with permits.
    pub(crate) fn new(
        keys: &'a [String],
        options: &'a Options,
        name: String,
        reenters: Option<bool>,
    ) -> anyhow::Result<Self> {
        ensure!(
            options.permits.is_none() || keys.len() == 1,
            "`--permits` requires a single key, but there are {}",
            keys.len()
        );
        Ok(Self {
            keys,
            options,
            name,
            reenters,
        })
    }
}

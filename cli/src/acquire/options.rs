//! The options of an acquisition.

use std::time::Duration;

use anyhow::ensure;

use crate::args::duration;

/// The options that `run` and `hold` have in common.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How long the lock outlives this process if it dies; renewed every third of it
    #[arg(short, long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// Give up after so long, connecting included; without it the wait lasts as long as it takes
    #[arg(short = 'w', long, visible_alias = "wait", value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Give up at once if the lock is not free
    #[arg(short, long, conflicts_with = "timeout")]
    pub(crate) nonblock: bool,
    /// Share the lock with others that have this option; those without it wait for all of them
    #[arg(short, long)]
    pub(crate) shared: bool,
    /// Let so many in at once: take one of N permits of the key, a semaphore; give each of them the same N
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["shared", "min_hold"]
    )]
    pub(crate) permits: Option<u32>,
    /// Keep the lock for so long at least, counted from its acquisition, though it is given back earlier
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "shared")]
    pub(crate) min_hold: Option<Duration>,
    /// What others see of this process while it has the lock, beside its name
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The exit code if the lock is not acquired, instead of 124
    #[arg(short = 'E', long, value_name = "CODE")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Say on standard error what is waited for, and what was acquired
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print nothing on standard error, except an error that explains the exit code 122, 123, 125, 126 or 127
    ///
    /// The exit code alone says that the lock was not acquired, as for a job of cron. What a command prints is not
    /// changed.
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
pub(crate) struct Wish<'a> {
    pub(crate) keys: &'a [String],
    pub(crate) options: &'a Options,
    /// The name of this process for those who look at its locks.
    pub(crate) name: String,
    /// Whether the locks of the runs around this process are entered once more; `None` where that is no option.
    pub(crate) reenters: Option<bool>,
}

impl<'a> Wish<'a> {
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
            "`--permits` is for one key, and there are {}",
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

//! A line on the terminal that says how far something is, while it lasts.

use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// How long something lasts before it says how far it is, and how often it does so.
const PAUSE: Duration = Duration::from_millis(200);

/// The line on standard error, if that is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
    is_there: bool,
    last: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            is_shown: stderr().is_terminal(),
            is_there: false,
            last: Instant::now(),
        }
    }

    /// Shows this, unless something was shown just now.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_shown && self.last.elapsed() >= PAUSE {
            self.last = Instant::now();
            self.is_there = true;
            // Where it cannot be written it is not missed.
            let _ = write!(stderr(), "\r\x1b[2K{}", text());
        }
    }

    /// Takes the line away, before others are printed.
    pub(crate) fn clear(&mut self) {
        if self.is_there {
            self.is_there = false;
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

//! A line on the terminal that shows the progress of a long task.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The time before the first line of progress, and between two lines.
const PRINT_INTERVAL: Duration = Duration::from_millis(200);

/// The line on standard error, if standard error is a terminal.
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

    /// Shows the text, unless a text was shown shortly before.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if self.is_shown && self.last.elapsed() >= PRINT_INTERVAL {
            self.last = Instant::now();
            self.is_there = true;
            // A line that cannot be written may be missing.
            let _ = write!(stderr(), "\r\x1b[2K{}", text());
        }
    }

    /// Removes the line, before other lines are printed.
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

//! A lock as the program shows it: to a person, or as JSON.

use std::time::{Duration, UNIX_EPOCH};

use reentry::admin::{Holder, LockInfo, Process};
use serde::Serialize;

use crate::text::{cut, printable};

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LockView {
    pub(crate) key: String,
    pub(crate) mode: &'static str,
    /// The number of holders.
    pub(crate) holder_count: u64,
    /// The holders that are shown, which may be fewer.
    pub(crate) holders: Vec<HolderView>,
    /// The time until the lease expires; `None` without an expiry.
    pub(crate) lease_left_ms: Option<u64>,
    pub(crate) held_for_ms: Option<u64>,
    pub(crate) token: Option<u64>,
    pub(crate) waiting_processes: u64,
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HolderView {
    pub(crate) hold_id: String,
    /// The call graph; `None` if another program wrote something else.
    pub(crate) owner: Option<String>,
    pub(crate) process: Option<ProcessView>,
    pub(crate) depth: u64,
    /// The time until the lease of a reader expires.
    pub(crate) lease_left_ms: Option<u64>,
}

/// A process that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingView {
    pub(crate) id: String,
    pub(crate) process: Option<ProcessView>,
    pub(crate) mode: &'static str,
    pub(crate) holds: Vec<String>,
    pub(crate) alive: bool,
    /// The time for which the process counts as alive if it sends no further request.
    pub(crate) alive_for_ms: Option<u64>,
}

/// What a process has said about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessView {
    /// The process in words.
    #[serde(skip)]
    pub(crate) text: String,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Seconds since 1970.
    pub(crate) started: u64,
}

impl LockView {
    pub(crate) fn new(key: String, holder_count: u64, info: LockInfo) -> Self {
        Self {
            key,
            mode: mode(info.is_shared),
            holder_count,
            held_for_ms: info.holders.first().and_then(|it| it.held_for).map(millis),
            holders: info.holders.into_iter().map(HolderView::from).collect(),
            lease_left_ms: info.remaining.map(millis),
            token: info.token.map(u64::from),
            waiting_processes: info.waiting_processes,
        }
    }

    /// The depth of the first holder; 0 if there is none.
    pub(crate) fn depth(&self) -> u64 {
        self.holders.first().map_or(0, |holder| holder.depth)
    }

    /// A short name for the holders, within so many cells: the first of them, and how many more there are.
    pub(crate) fn holder(&self, width: usize) -> String {
        let Some(first) = self.holders.first() else {
            return "-".to_owned();
        };
        let name = match &first.process {
            Some(process) => process.short(),
            None => {
                let id = first.owner.as_deref().unwrap_or(&first.hold_id);
                cut(&printable(id), 8).to_owned()
            }
        };
        let more = match self.holder_count {
            0 | 1 => String::new(),
            count => format!(" +{}", count - 1),
        };
        let name = printable(&name);
        cut(&name, width.saturating_sub(more.len())).to_owned() + &more
    }

    /// The first holder in words, and for how long it has had the lock.
    pub(crate) fn held_by(&self) -> String {
        let first = self.holders.first();
        let process = first.and_then(|first| first.process.as_ref());
        let holder = process.map_or_else(|| self.holder(usize::MAX), |it| it.text.clone());
        format!("held by {} for {}", printable(&holder), self.held_for())
    }

    pub(crate) fn lease_left(&self) -> String {
        self.lease_left_ms.map_or("never expires".to_owned(), short)
    }

    pub(crate) fn held_for(&self) -> String {
        self.held_for_ms.map_or("?".to_owned(), short)
    }
}

impl ProcessView {
    /// The process in the form in which `CLIENT LIST` shows it.
    pub(crate) fn short(&self) -> String {
        let Self {
            name, pid, host, ..
        } = self;
        format!("{name}:{pid}@{host}")
    }
}

impl From<Process> for ProcessView {
    fn from(process: Process) -> Self {
        let started = process.started.duration_since(UNIX_EPOCH);
        Self {
            text: process.to_string(),
            started: started.unwrap_or_default().as_secs(),
            name: process.name,
            host: process.host,
            pid: process.pid,
            version: process.version,
        }
    }
}

impl From<Holder> for HolderView {
    fn from(holder: Holder) -> Self {
        Self {
            hold_id: holder.hold_id,
            owner: holder.owner,
            process: holder.process.map(ProcessView::from),
            depth: holder.depth,
            lease_left_ms: holder.remaining.map(millis),
        }
    }
}

fn mode(is_shared: bool) -> &'static str {
    if is_shared { "shared" } else { "exclusive" }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A short form of a time span: `850ms`, `29.3s`, `4m05s`, `3h20m`, `12d03h`.
pub(crate) fn short(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}.{}s", millis % 1_000 / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (29_399, "29.3s"),
            (60_000, "1m00s"),
            (3_599_999, "59m59s"),
            (12_000_000, "3h20m"),
            (86_400_000, "1d00h"),
        ] {
            assert_eq!(short(millis), text);
        }
    }
}

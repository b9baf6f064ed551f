//! A lock as the program shows it: to a person, or as JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::{format_duration, format_rfc3339_seconds};
use reentry::admin::{Holder, LockInfo, Process};
use serde::Serialize;

use crate::note::Note;
use crate::text::{cells, count, cut, printable, shortened};

const FREE: &str = "free";

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LockView {
    pub(crate) key: String,
    /// `exclusive`, `shared` or `free`.
    pub(crate) mode: &'static str,
    /// The number of holders.
    pub(crate) holder_count: u64,
    /// The number of permits, if it is known. The lock does not have it: those who take permits name it.
    pub(crate) permits: Option<u64>,
    /// The holders that are shown, which may be fewer.
    pub(crate) holders: Vec<HolderView>,
    /// The time until the lease expires; `None` without an expiry.
    pub(crate) lease_left_ms: Option<u64>,
    /// The minimum time that keeps the lock until its lease expires, although its command has ended.
    pub(crate) min_hold_ms: Option<u64>,
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
    /// The number of permits of which it has one.
    pub(crate) permits: Option<u64>,
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
    /// The number of permits of which it wants one.
    pub(crate) permits: Option<u64>,
    pub(crate) hold_ids: Vec<String>,
    pub(crate) alive: bool,
    /// The time for which the process counts as alive if it sends no further request.
    pub(crate) alive_for_ms: Option<u64>,
}

/// What a process has said about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessView {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Seconds since 1970.
    pub(crate) started: u64,
}

impl LockView {
    /// A lock with these holders, or with more that are not shown.
    pub(crate) fn new(key: String, holder_count: u64, info: LockInfo) -> Self {
        let notes = info.holders.iter().map(|holder| holder.process.as_ref());
        let min_hold_ms = notes.flatten().find_map(|process| match Note::of(process) {
            Some(Note::Kept(min_hold)) => Some(min_hold),
            _ => None,
        });
        let held_for_ms = info.holders.first().and_then(|it| it.held_for).map(millis);
        let holders: Vec<_> = info.holders.into_iter().map(HolderView::from).collect();
        Self {
            key,
            mode: mode(info.is_shared),
            holder_count,
            permits: agreed(holders.iter().map(|holder| holder.permits)),
            holders,
            lease_left_ms: info.remaining.map(millis),
            min_hold_ms,
            held_for_ms,
            token: info.token.map(u64::from),
            waiting_processes: info.waiting_processes,
        }
    }

    /// A lock as an inspection has returned it.
    pub(crate) fn of(key: &str, info: LockInfo) -> Self {
        let count = info.holders.len() as u64;
        Self::new(key.to_owned(), count, info)
    }

    /// A lock that no process holds.
    pub(crate) fn free(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            mode: FREE,
            holder_count: 0,
            permits: None,
            holders: Vec::new(),
            lease_left_ms: None,
            min_hold_ms: None,
            held_for_ms: None,
            token: None,
            waiting_processes: 0,
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.mode == FREE
    }

    /// Its mode in a table.
    pub(crate) fn state(&self) -> &'static str {
        self.min_hold_ms.map_or(self.mode, |_| "kept")
    }

    /// The number of holders in a table, and how many there may be.
    pub(crate) fn holders_of_most(&self) -> String {
        let count = self.holder_count;
        self.permits
            .map_or(count.to_string(), |permits| format!("{count}/{permits}"))
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
        let more = match self.holder_count {
            0 | 1 => String::new(),
            count => format!(" +{}", count - 1),
        };
        let left = width.saturating_sub(more.len());
        let name = match &first.process {
            Some(process) => process.short(left),
            None => {
                let id = printable(first.owner.as_deref().unwrap_or(&first.hold_id));
                cut(&id, left.min(8)).to_owned()
            }
        };
        name + &more
    }

    /// The holders in words, and for how long they have had the lock, or have left it.
    pub(crate) fn held_by(&self) -> String {
        let first = self.holders.first();
        let process = first.and_then(|first| first.process.as_ref());
        let holder = match (first, process) {
            (_, Some(process)) => process.words(),
            (Some(first), None) if first.owner.is_none() => {
                format!(
                    "another program, with the field `{}`",
                    printable(&first.hold_id)
                )
            }
            _ => self.holder(usize::MAX),
        };
        let Some(min_hold) = self.min_hold_ms else {
            let more = match process.map_or(0, |_| self.holder_count.saturating_sub(1)) {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            let held_for = self.held_for_ms.map(|it| format!(" for {}", short(it)));
            let permits = self
                .permits
                .map(|permits| format!(" ({} of {})", self.holder_count, count(permits, "permit")));
            let (held_for, permits) = (held_for.unwrap_or_default(), permits.unwrap_or_default());
            return format!("held by {holder}{more}{held_for}{permits}");
        };
        let (until, min_hold) = (self.until(), in_words(min_hold));
        format!("kept until {until} by `--min-hold {min_hold}`: {holder}, has ended")
    }

    /// The moment at which its lease expires, on the clock of this machine.
    pub(crate) fn until(&self) -> String {
        let left = Duration::from_millis(self.lease_left_ms.unwrap_or_default());
        format_rfc3339_seconds(SystemTime::now() + left).to_string()
    }

    pub(crate) fn lease_left(&self) -> String {
        self.lease_left_ms.map_or("never".to_owned(), short)
    }

    pub(crate) fn held_for(&self) -> String {
        self.held_for_ms.map_or("?".to_owned(), short)
    }
}

/// The only number of permits that is named, if there is one.
pub(crate) fn agreed(named: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let mut named = named.flatten();
    let first = named.next()?;
    named.all(|other| other == first).then_some(first)
}

impl ProcessView {
    /// The process in the form in which `CLIENT LIST` shows it, within so many cells. The name is cut first.
    pub(crate) fn short(&self, width: usize) -> String {
        let name = printable(&self.name);
        let place = format!(":{}@{}", self.pid, printable(&self.host));
        match width.saturating_sub(cells(&place)) {
            0 => shortened(&format!("{name}{place}"), width).into_owned(),
            left => shortened(&name, left).into_owned() + &place,
        }
    }

    /// The process in words, as errors of the crate show it.
    pub(crate) fn words(&self) -> String {
        let (name, host) = (printable(&self.name), printable(&self.host));
        format!("{name}, pid {} on {host}", self.pid)
    }
}

impl From<Process> for ProcessView {
    fn from(process: Process) -> Self {
        let started = process.started.duration_since(UNIX_EPOCH);
        Self {
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
            permits: match holder.process.as_ref().and_then(Note::of) {
                Some(Note::Permits(permits)) => Some(permits),
                _ => None,
            },
            process: holder.process.map(ProcessView::from),
            depth: holder.depth,
            lease_left_ms: holder.remaining.map(millis),
        }
    }
}

pub(crate) fn mode(is_shared: bool) -> &'static str {
    if is_shared { "shared" } else { "exclusive" }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A time span as an option has it: `1h 30m`.
pub(crate) fn in_words(millis: u64) -> String {
    format_duration(Duration::from_millis(millis)).to_string()
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
pub(crate) mod tests {
    use super::*;
    use crate::ranking::tests::lock;

    fn process(name: &str, host: &str) -> ProcessView {
        ProcessView {
            name: name.to_owned(),
            host: host.to_owned(),
            pid: 10540,
            version: String::new(),
            started: 0,
        }
    }

    /// A lock that this process holds.
    pub(crate) fn held_by(name: &str, host: &str) -> LockView {
        let holder = HolderView {
            hold_id: "8b1c1a3e-0000-4000-8000-000000000000:1".to_owned(),
            owner: Some("8b1c1a3e-0000-4000-8000-000000000000".to_owned()),
            process: Some(process(name, host)),
            permits: None,
            depth: 1,
            lease_left_ms: None,
        };
        LockView {
            holders: vec![holder],
            ..lock("order:42", 0)
        }
    }

    #[test]
    fn a_name_is_cut_before_the_process_and_its_host() {
        let process = process("billing", "worker-3");
        for (width, expected) in [
            (22, "billing:10540@worker-3"),
            (19, "bil…:10540@worker-3"),
            (17, "b…:10540@worker-3"),
            (16, "…:10540@worker-3"),
            (12, "billing:105…"),
        ] {
            assert_eq!(process.short(width), expected);
        }
    }

    #[test]
    fn a_number_of_permits_is_shown_if_all_callers_agree() {
        for (named, expected) in [
            (&[None, Some(2), Some(2)][..], Some(2)),
            (&[Some(2), Some(3)], None),
            (&[None], None),
        ] {
            assert_eq!(agreed(named.iter().copied()), expected);
        }
    }

    #[test]
    fn a_duration_is_shown_with_at_most_two_units() {
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

//! `reentry show`: one lock, and its waiters.

use std::fmt;

use serde::Serialize;

use crate::args::Global;
use crate::exit::Exit;
use crate::inspector::Inspector;
use crate::output;
use crate::text::{cells, count, cut, padded, printable};
use crate::view::{HolderView, LockView, ProcessView, WaitingView, agreed, in_words, mode, short};

/// The maximum width of a waiting process, in cells. It is the width of an ID, which is shown for an unknown process.
const WAITER: usize = 36;

/// Show one lock: who holds it, and who waits for it
///
/// The exit code is 1 if the lock is free.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Key of the lock
    key: String,
    /// Show at most this many waiting processes
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

/// A lock with its queue.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    lock: LockView,
    /// The first waiters.
    queue: Vec<WaitingView>,
    /// The number of places in the queue, including places of processes that have died since.
    places: u64,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let inspector = Inspector::connect(global).await?;
    let shown = Shown::of(&inspector, &args.key, args.limit).await?;
    output::print(global, &shown)?;
    Ok(match shown.lock.is_free() {
        true => Exit::No,
        false => Exit::Success,
    })
}

impl Shown {
    /// Looks at a lock, and at the first processes that wait for it.
    pub(crate) async fn of(inspector: &Inspector, key: &str, limit: usize) -> anyhow::Result<Self> {
        let lock = inspector.one(key).await?;
        let (queue, places) = inspector.queue(key, limit).await?;
        let mut lock = lock.unwrap_or_else(|| LockView::free(key));
        if lock.is_free() {
            lock.waiting_processes = queue.iter().filter(|waiting| waiting.alive).count() as u64;
        } else if lock.mode == mode(true) && lock.permits.is_none() {
            // Those who wait have named their number in the store. All who are known have to agree.
            let holders = lock.holders.iter().map(|holder| holder.permits);
            let waiting = queue.iter().filter(|waiting| waiting.alive);
            lock.permits = agreed(holders.chain(waiting.map(|waiting| waiting.permits)));
        }
        Ok(Self {
            lock,
            queue,
            places,
        })
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.lock)?;
        let names: Vec<_> = self.queue.iter().map(name).collect();
        let width = names.iter().map(|name| cells(name)).max();
        let width = width.unwrap_or_default().max("PROCESS".len());
        let at = names.len().to_string().len();
        if !names.is_empty() {
            writeln!(
                f,
                "\n  {:at$}  {:width$}  {:9}  {:>7}  HOLD",
                "", "PROCESS", "WANTS", "ALIVE"
            )?;
        }
        for ((waiting, name), place) in self.queue.iter().zip(names).zip(1..) {
            let wants = match waiting.permits {
                Some(permits) => format!("1 of {permits}"),
                None => waiting.mode.to_owned(),
            };
            let alive_for = waiting.alive_for_ms.map_or("dead".to_owned(), short);
            let hold = waiting.hold_ids.first().map_or("?", |hold| hold.as_str());
            let more = match waiting.hold_ids.len() {
                0 | 1 => String::new(),
                count => format!(" +{}", count - 1),
            };
            let name = padded(&name, width);
            writeln!(
                f,
                "  {place:>at$}  {name}  {wants:9}  {alive_for:>7}  {hold}{more}"
            )?;
        }
        match self.places.saturating_sub(self.queue.len() as u64) {
            0 => Ok(()),
            left => writeln!(f, "      and {left} more"),
        }
    }
}

/// The name of a process that waits, or its id.
fn name(waiting: &WaitingView) -> String {
    let name = waiting.process.as_ref().map(|it| it.short(WAITER));
    name.unwrap_or_else(|| cut(&printable(&waiting.id), WAITER).to_owned())
}

/// A lock in words, line by line.
impl fmt::Display for LockView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is ", printable(&self.key))?;
        if self.is_free() {
            return writeln!(f, "free");
        }
        match (self.min_hold_ms, self.permits, self.mode, self.holder_count) {
            (Some(min_hold), ..) => {
                let (until, min_hold) = (self.until(), in_words(min_hold));
                writeln!(
                    f,
                    "kept until {until} by `--min-hold {min_hold}`: its command has ended"
                )?;
            }
            (_, Some(permits), _, holders) => {
                writeln!(f, "held, {holders} of {}", count(permits, "permit"))?;
            }
            (.., "shared", holders) => {
                writeln!(f, "shared by {}", count(holders, "holder"))?;
            }
            (.., mode, _) => writeln!(f, "held, {mode}")?,
        }
        for holder in &self.holders {
            writeln!(f, "  holder   {holder}")?;
        }
        let shown = self.holders.len() as u64;
        if self.holder_count > shown {
            writeln!(f, "           and {} more", self.holder_count - shown)?;
        }
        let lease = self.lease_left_ms.map_or("never expires".to_owned(), short);
        let token = self.token.map_or("none".to_owned(), |it| it.to_string());
        writeln!(f, "  lease    {lease}")?;
        writeln!(f, "  held for {}", self.held_for())?;
        writeln!(f, "  token    {token}")?;
        match self.waiting_processes {
            0 => writeln!(f, "  no process waits"),
            1 => writeln!(f, "  1 process waits"),
            count => writeln!(f, "  {count} processes wait"),
        }
    }
}

impl fmt::Display for HolderView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(process) = &self.process {
            write!(f, "{}\n  hold     ", ProcessView::words(process))?;
        }
        write!(f, "{}, depth {}", printable(&self.hold_id), self.depth)?;
        if let Some(left) = self.lease_left_ms {
            write!(f, ", lease {}", short(left))?;
        }
        match self.owner {
            Some(_) => Ok(()),
            None => write!(f, ", of another program"),
        }
    }
}

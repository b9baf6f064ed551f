//! `reentry show`: one lock, and its waiters.

use std::fmt::Write as _;

use serde::Serialize;

use crate::args::Global;
use crate::exit::Exit;
use crate::look::Look;
use crate::output;
use crate::text::{cut, json, padded, printable};
use crate::view::{LockView, ProcessView, WaitingView, short};

/// The width of a waiting process, in cells. It is the width of an ID, which is shown for an unknown process.
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

/// The output.
#[derive(Debug, Serialize)]
struct Shown {
    /// The lock; `None` if it is free.
    lock: Option<LockView>,
    key: String,
    /// The first waiters.
    queue: Vec<WaitingView>,
    /// The number of places in the queue, including places of processes that have died since.
    places: u64,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let look = Look::connect(global).await?;
    let lock = look.one(&args.key).await?;
    let (queue, places) = look.queue(&args.key, args.limit).await?;
    let exit = match lock {
        Some(_) => Exit::Success,
        None => Exit::No,
    };
    let shown = Shown {
        lock,
        queue,
        places,
        key: args.key,
    };
    let text = if global.json {
        json(&shown)? + "\n"
    } else {
        shown.text()
    };
    output::write(text.as_bytes())?;
    Ok(exit)
}

impl Shown {
    fn text(&self) -> String {
        let mut text = described(&self.key, self.lock.as_ref());
        if !self.queue.is_empty() {
            let _ = writeln!(
                text,
                "\n{:>4}  {:WAITER$}  {:9}  {:>9}  HOLD",
                "", "PROCESS", "WANTS", "ALIVE FOR"
            );
        }
        for (process, place) in self.queue.iter().zip(1_u64..) {
            let name = process.process.as_ref().map(ProcessView::short);
            let name = name.as_ref().unwrap_or(&process.id);
            let alive_for = process.alive_for_ms.map_or("dead".to_owned(), short);
            let hold = process.holds.first().map_or("?", |hold| hold.as_str());
            let more = match process.holds.len() {
                0 | 1 => String::new(),
                count => format!(" +{}", count - 1),
            };
            let _ = writeln!(
                text,
                "{place:>4}  {}  {:9}  {alive_for:>9}  {hold}{more}",
                padded(cut(&printable(name), WAITER), WAITER),
                process.mode,
            );
        }
        let left = self.places.saturating_sub(self.queue.len() as u64);
        if left > 0 {
            let _ = writeln!(text, "      and {left} more");
        }
        text
    }
}

/// A lock in words, line by line.
pub(crate) fn described(key: &str, lock: Option<&LockView>) -> String {
    let mut text = printable(key).into_owned();
    let Some(lock) = lock else {
        return text + " is free\n";
    };
    // Writing into a string cannot fail.
    let _ = match (lock.mode, lock.holder_count) {
        ("shared", 1) => writeln!(text, " is shared by 1 holder"),
        ("shared", count) => writeln!(text, " is shared by {count} holders"),
        (mode, _) => writeln!(text, " is held, {mode}"),
    };
    for holder in &lock.holders {
        let hold = printable(&holder.hold_id);
        let _ = match &holder.process {
            Some(process) => write!(
                text,
                "  holder   {}\n  hold     {hold}",
                printable(&process.text)
            ),
            None => write!(text, "  holder   {hold}"),
        };
        let _ = write!(text, ", depth {}", holder.depth);
        if let Some(left) = holder.lease_left_ms {
            let _ = write!(text, ", lease {}", short(left));
        }
        if holder.owner.is_none() {
            text.push_str(", of another program");
        }
        text.push('\n');
    }
    let shown = lock.holders.len() as u64;
    if lock.holder_count > shown {
        let _ = writeln!(text, "           and {} more", lock.holder_count - shown);
    }
    let _ = writeln!(text, "  lease    {}", lock.lease_left());
    let _ = writeln!(text, "  held for {}", lock.held_for());
    let token = lock.token.map_or("none".to_owned(), |it| it.to_string());
    let _ = writeln!(text, "  token    {token}");
    let _ = match lock.waiting_processes {
        0 => writeln!(text, "  no process waits"),
        1 => writeln!(text, "  1 process waits"),
        count => writeln!(text, "  {count} processes wait"),
    };
    text
}

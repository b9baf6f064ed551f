//! `reentry ls`: the locks that are held.

use std::io::{self, ErrorKind, Write};

use crate::args::Global;
use crate::exit::Exit;
use crate::look::Look;
use crate::progress::Progress;
use crate::text::{cells, json, padded, printable};
use crate::top::{Order, Top};
use crate::view::LockView;

/// The number of locks that are shown in an order, unless `--limit` says so.
const SORTED: usize = 50;

/// The width of the column of the holders, in cells.
const HOLDER: usize = 24;

/// List the locks that are held
///
/// The locks are printed in the order in which they are found, so that any number of them needs no memory. With --sort,
/// the first ones in the sorted order are printed at the end. All keys of the servers are scanned, page by page,
/// including other data. A lock that is acquired or released during the scan may be missing. A lock may also be printed
/// twice.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pattern for the keys: `*` matches any characters, `?` matches one, `[ab]` matches one of these
    #[arg(default_value = "*")]
    pattern: String,
    /// Stop after this many locks [default: all locks, or 50 with --sort]
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<usize>,
    /// Print the first locks in this order, after all keys were scanned
    #[arg(long, short, value_name = "ORDER")]
    sort: Option<Order>,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let look = Look::connect(global).await?;
    let listed = match args.sort {
        Some(order) => sorted(&look, &args, order, global).await,
        None => as_they_come(&look, &args, global).await,
    };
    match listed {
        // The reader has closed the pipe.
        Err(error) if is_closed(&error) => Ok(Exit::Success),
        listed => listed.map(|()| Exit::Success),
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

async fn as_they_come(look: &Look, args: &Args, global: &Global) -> anyhow::Result<()> {
    let (mut list, mut progress) = (look.list(&args.pattern), Progress::new());
    let mut table = Table::new(global.json);
    let mut left = args.limit.unwrap_or(usize::MAX);
    while left > 0
        && let Some(page) = list.next_page().await?
    {
        let page: Vec<_> = page.into_iter().take(left).collect();
        left -= page.len();
        if !page.is_empty() {
            progress.clear();
            table.print(&page)?;
        }
        progress.show(|| said(list.progress(), table.count));
    }
    progress.clear();
    say_unnamed(list.unnamed());
    Ok(())
}

async fn sorted(look: &Look, args: &Args, order: Order, global: &Global) -> anyhow::Result<()> {
    let (mut list, mut progress) = (look.list(&args.pattern), Progress::new());
    let mut top = Top::new(order, args.limit.unwrap_or(SORTED));
    let mut count = 0;
    while let Some(page) = list.next_page().await? {
        count += page.len();
        page.into_iter().for_each(|lock| top.put(lock));
        progress.show(|| said(list.progress(), count));
    }
    progress.clear();
    Table::new(global.json).print(&top.sorted())?;
    say_unnamed(list.unnamed());
    Ok(())
}

/// Prints on standard error that something is missing.
fn say_unnamed(keys: u64) {
    let keys = match keys {
        0 => return,
        1 => {
            "skipped 1 key that is not valid UTF-8; it may be a lock of another program".to_owned()
        }
        keys => format!(
            "skipped {keys} keys that are not valid UTF-8; they may be locks of other programs"
        ),
    };
    let _ = writeln!(anstream::stderr(), "reentry: {keys}");
}

fn said(progress: f64, count: usize) -> String {
    format!("{:.0} % of the keys, {count} locks", progress * 100.0)
}

/// The output: lines of a table under one head, or lines of JSON.
struct Table {
    is_json: bool,
    /// The width of the keys, from the first lines.
    width: Option<usize>,
    count: usize,
}

impl Table {
    fn new(is_json: bool) -> Self {
        Self {
            is_json,
            width: None,
            count: 0,
        }
    }

    fn print(&mut self, locks: &[LockView]) -> anyhow::Result<()> {
        self.count += locks.len();
        let mut out = anstream::stdout().lock();
        if self.is_json {
            for lock in locks {
                writeln!(out, "{}", json(lock)?)?;
            }
            return Ok(out.flush()?);
        }
        let width = match self.width {
            Some(width) => width,
            None if locks.is_empty() => return Ok(()),
            None => {
                let widths = locks.iter().map(|lock| cells(&printable(&lock.key)));
                let width = widths.max().unwrap_or_default().clamp(3, 60);
                self.width = Some(width);
                let names = (
                    "MODE", "HOLDERS", "HOLDER", "DEPTH", "LEASE", "HELD", "WAITING",
                );
                let (mode, holders, holder, depth, lease, held, waiting) = names;
                writeln!(
                    out,
                    "{:width$}  {mode:9}  {holders:>7}  {holder:HOLDER$}  {depth:>5}  {lease:>10}  {held:>7}  {waiting:>7}",
                    "KEY"
                )?;
                width
            }
        };
        for lock in locks {
            writeln!(
                out,
                "{}  {:9}  {:>7}  {}  {:>5}  {:>10}  {:>7}  {:>7}",
                padded(&printable(&lock.key), width),
                lock.mode,
                lock.holder_count,
                padded(&lock.holder(HOLDER), HOLDER),
                lock.depth(),
                lock.lease_left(),
                lock.held_for(),
                lock.waiting_processes
            )?;
        }
        Ok(out.flush()?)
    }
}

//! `reentry ls`: the locks that are held.

use std::io::{self, ErrorKind, IsTerminal, Write, stdout};

use crate::args::Global;
use crate::columns::Columns;
use crate::exit::Exit;
use crate::inspector::Inspector;
use crate::output;
use crate::progress::Progress;
use crate::ranking::{Order, Top};
use crate::text::{count, json};
use crate::view::LockView;

/// The number of locks that are shown in an order, unless `--limit` says so.
const SORTED: usize = 50;

/// The width of a key that is shown as a whole, whatever else is left out.
const WHOLE: usize = 40;

/// List the locks that are held
///
/// The locks are printed in the order in which they are found, so that any number of them needs no memory. With --sort,
/// the first ones in the sorted order are printed at the end. All keys of the servers are scanned for each pattern, page
/// by page, including other data. A lock that is acquired or released during the scan may be missing. A lock may also be
/// printed twice.
///
/// A terminal shows the columns for which it has room. Elsewhere all of them are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Patterns for the keys: `*`, `?` and `[ab]` match as in Redis
    ///
    /// `*` matches any characters, `?` matches one, `[ab]` matches one of these, and `\` before one of them matches
    /// itself.
    #[arg(default_value = "*", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Stop after this many locks [default: all, or 50 with --sort]
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<usize>,
    /// Print the first locks in this order, once all keys are scanned
    #[arg(long, short, value_name = "ORDER")]
    sort: Option<Order>,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let inspector = Inspector::connect(global).await?;
    let listed = match args.sort {
        Some(order) => sorted(&inspector, &args, order, global).await,
        None => as_they_come(&inspector, &args, global).await,
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

async fn as_they_come(inspector: &Inspector, args: &Args, global: &Global) -> anyhow::Result<()> {
    let (mut list, mut progress) = (inspector.list(&args.patterns), Progress::new());
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
    table.end()?;
    say_unnamed(list.unnamed());
    Ok(())
}

async fn sorted(
    inspector: &Inspector,
    args: &Args,
    order: Order,
    global: &Global,
) -> anyhow::Result<()> {
    let (mut list, mut progress) = (inspector.list(&args.patterns), Progress::new());
    let mut top = Top::new(order, args.limit.unwrap_or(SORTED));
    let mut count = 0;
    while let Some(page) = list.next_page().await? {
        count += page.len() as u64;
        page.into_iter().for_each(|lock| top.put(lock));
        progress.show(|| said(list.progress(), count));
    }
    progress.clear();
    let mut table = Table::new(global.json);
    table.print(&top.sorted())?;
    table.end()?;
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

fn said(progress: f64, locks: u64) -> String {
    let locks = count(locks, "lock");
    format!("{:.0} % of the keys, {locks}", progress * 100.0)
}

/// The output: lines of a table under one head, or lines of JSON.
struct Table {
    is_json: bool,
    /// The columns, from the first lines.
    columns: Option<Columns>,
    count: u64,
}

impl Table {
    fn new(is_json: bool) -> Self {
        Self {
            is_json,
            columns: None,
            count: 0,
        }
    }

    fn print(&mut self, locks: &[LockView]) -> anyhow::Result<()> {
        self.count += locks.len() as u64;
        let mut out = anstream::stdout().lock();
        if self.is_json {
            for lock in locks {
                writeln!(out, "{}", json(lock)?)?;
            }
        } else if !locks.is_empty() {
            let is_first = self.columns.is_none();
            let fitting = || Columns::fitting(output::width(), WHOLE, locks.iter());
            let columns = self.columns.get_or_insert_with(fitting);
            if is_first {
                writeln!(out, "{}", columns.head())?;
            }
            for lock in locks {
                writeln!(out, "{}", columns.row(lock))?;
            }
        }
        Ok(out.flush()?)
    }

    /// Tells a person that there are no locks. A program gets no line.
    fn end(&self) -> anyhow::Result<()> {
        if self.count == 0 && !self.is_json && stdout().is_terminal() {
            output::write(b"no locks\n")?;
        }
        Ok(())
    }
}

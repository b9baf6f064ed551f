//! `reentry watch`: the locks that are held, as they change.
//!
//! | file | what it is |
//! |---|---|
//! | `state` | the state of the screen, and the effect of each key |
//! | `sweep` | the source of the data |
//! | `draw` | the screen |

mod draw;
mod state;
mod sweep;

use std::future::pending;
use std::io::{self, IsTerminal, stdin, stdout};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::select;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use self::state::{Action, State, Update};
use crate::args::{Global, duration};
use crate::exit::Exit;
use crate::inspector::Inspector;
use crate::ranking::Order;
use crate::servers;
#[cfg(unix)]
use crate::signals::Signals;
use crate::text::count;

/// The minimum time between two draws of the screen.
const FRAME: Duration = Duration::from_millis(100);

/// Watch the locks that are held, in a table that fills the terminal
///
/// All keys of the servers are scanned again and again, and the locks on the screen are refreshed at each --interval.
/// Keys: q quits, the arrows move, Enter shows the lock with its queue, s changes the sort order, / filters, Esc goes
/// back and clears the filter, r starts a new sweep.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Patterns for the keys: `*`, `?` and `[ab]` match as in Redis
    #[arg(default_value = "*", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Initial sort order
    #[arg(long, short, value_name = "ORDER", default_value = "waiting")]
    sort: Order,
    /// How often to refresh the locks on the screen
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if global.json || !stdout().is_terminal() || !stdin().is_terminal() {
        bail!(
            "`watch` needs a terminal: use `reentry ls`, with or without `--json`, which prints the same once"
        );
    }
    let inspector = Inspector::connect(global).await?;
    let server = match &servers::all(global).await?[..] {
        [one] => one.address().to_owned(),
        several => count(several.len() as u64, "server"),
    };
    let ended = end_signal()?;
    let mut terminal = ratatui::try_init()?;
    let watched = select! {
        watched = watch(&mut terminal, &inspector, &args, &server) => watched.map(|()| Exit::Success),
        number = ended => Ok(Exit::Signal(number)),
    };
    let restored = ratatui::try_restore();
    match &watched {
        // A terminal that hangs up cannot be restored.
        Ok(Exit::Signal(_)) => {}
        _ => restored?,
    }
    watched
}

/// The signal that terminates this process. From now on, the terminal is restored first.
#[cfg(unix)]
fn end_signal() -> io::Result<impl Future<Output = i32>> {
    let mut signals = Signals::register()?;
    Ok(async move { signals.end().await })
}

#[cfg(not(unix))]
fn end_signal() -> io::Result<impl Future<Output = i32>> {
    Ok(std::future::pending())
}

/// A background task, and its news for the screen. It ends when this is dropped.
struct Source {
    updates: mpsc::Receiver<Update>,
    task: JoinHandle<()>,
}

impl Source {
    fn begin<F>(task: impl FnOnce(mpsc::Sender<Update>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, updates) = mpsc::channel(64);
        let task = tokio::spawn(task(sender));
        Self { updates, task }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(
    terminal: &mut DefaultTerminal,
    inspector: &Inspector,
    args: &Args,
    server: &str,
) -> anyhow::Result<()> {
    let mut state = State::new(&args.patterns, args.sort);
    let (on_screen, seen) = watch::channel(Arc::from([]));
    let sweeping = |patterns: &[String]| {
        let (inspector, patterns, seen) = (inspector.clone(), patterns.to_vec(), seen.clone());
        Source::begin(|updates| sweep::sweep(inspector, patterns, args.interval, seen, updates))
    };
    let showing = |key: String| {
        let inspector = inspector.clone();
        Source::begin(|updates| sweep::show(inspector, key, args.interval, updates))
    };
    let mut locks = sweeping(state.patterns());
    let mut shown: Option<Source> = None;
    let mut pressed = events();
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_new = true;
    loop {
        let of_shown = async {
            match &mut shown {
                Some(source) => source.updates.recv().await,
                None => pending().await,
            }
        };
        select! {
            Some(update) = locks.updates.recv() => {
                state.apply(update);
                is_new = true;
            }
            Some(update) = of_shown => {
                state.apply(update);
                is_new = true;
            }
            event = pressed.recv() => {
                is_new = true;
                let screen = usize::from(terminal.size()?.height.saturating_sub(draw::LINES_AROUND_ROWS));
                let action = match event {
                    Some(Event::Key(key)) => state.press(key, screen),
                    // The terminal is gone.
                    None => Action::Quit,
                    // The size is read when the screen is drawn.
                    Some(_) => Action::Nothing,
                };
                match action {
                    Action::Nothing => {}
                    Action::Quit => return Ok(()),
                    Action::Sweep => {
                        state.begin();
                        locks = sweeping(state.patterns());
                    }
                    Action::Show(key) => shown = Some(showing(key)),
                    Action::Back => shown = None,
                }
            }
            _ = frames.tick(), if is_new => {
                is_new = false;
                terminal.draw(|frame| draw::draw(frame, &state, server))?;
                let height = usize::from(terminal.size()?.height);
                let from = state.selected().saturating_sub(height);
                let rows = state.rows().into_iter().skip(from).take(2 * height);
                let keys = rows.map(|lock| lock.key.clone()).collect();
                on_screen.send_replace(keys);
            }
        }
    }
}

/// The keys that are typed. A separate thread reads them, because the read blocks. It ends together with the program.
fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

//! The shell of the state machine: it brings the events to the run and performs its actions.

use std::future;
use std::time::Duration;

use reentry::LockError;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::command::Command;
use super::steps::{Action, Ended, Event, Run};
use crate::acquire::lock::Lock;
use crate::signals::{Signals, stop_this_process};

/// The interval of the search for the remaining processes of a command while it is terminated.
const POLL: Duration = Duration::from_millis(20);

/// The time between two attempts to kill the remaining processes.
const AGAIN: Duration = Duration::from_millis(250);

/// The outcome of a run.
#[derive(Debug)]
pub(super) enum Outcome {
    Ended(Ended),
    Lost(LockError),
}

/// Returns when the command has ended, or, if it was killed or the lock was lost, when all of its processes have.
pub(super) async fn until_end(
    mut command: Command,
    lock: &Lock,
    signals: &mut Signals,
    grace: Duration,
) -> Outcome {
    let mut run = Run::new(command.shares_group());
    let mut loss = None;
    let mut late_at: Option<Instant> = None;
    let ended = loop {
        // The command may have ended before the first wait for a signal.
        let event = match command.next_event() {
            Some(event) => event,
            None if run.is_ending() && command.is_gone() => Event::NothingLeft,
            None => tokio::select! {
                sent = signals.next() => Event::Sent(sent),
                error = lock.lost(), if loss.is_none() => {
                    loss = Some(error);
                    Event::Lost
                }
                () = until(late_at) => Event::Late,
                () = sleep(POLL), if run.is_ending() => continue,
            },
        };
        // A process that was stopped for longer than its lease may see the end of the command before the loss.
        if loss.is_none() && matches!(event, Event::Ended(_) | Event::NothingLeft) {
            loss = lock.loss().await;
            if loss.is_some() {
                let action = run.step(Event::Lost);
                late_at = perform(action, &mut command, grace).or(late_at);
            }
        }
        let action = run.step(event);
        late_at = perform(action, &mut command, grace).or(late_at);
        if let Some(ended) = run.over() {
            break ended;
        }
    };
    command.over();
    match (loss, ended) {
        (Some(error), _) => Outcome::Lost(error),
        (None, Some(ended)) => Outcome::Ended(ended),
        // The command could not even be killed.
        (None, None) => Outcome::Ended(Ended::Signal(Signal::KILL.as_raw())),
    }
}

/// Performs an action. Returns the next deadline, if the action changes it.
fn perform(action: Action, command: &mut Command, grace: Duration) -> Option<Instant> {
    match action {
        Action::Nothing => None,
        Action::Signal(number) => {
            command.signal(number);
            None
        }
        Action::SignalAll(number) => {
            if let Some(signal) = Signal::from_named_raw(number) {
                command.tree.signal_all(signal);
            }
            None
        }
        Action::Stop => {
            stop_this_process();
            None
        }
        Action::End => {
            command.tree.signal_all(Signal::TERM);
            // A stopped process would not end.
            command.tree.signal_all(Signal::CONT);
            Some(Instant::now() + grace)
        }
        Action::Kill => {
            command.tree.signal_all(Signal::KILL);
            Some(Instant::now() + AGAIN)
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => future::pending().await,
    }
}

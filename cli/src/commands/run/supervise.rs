//! Brings the run its events, and does what it answers.

use std::{future, time::Duration};

use reentry::LockError;
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    command::Command,
    lock::Lock,
    steps::{Action, Ended, Event, Run},
};
use crate::signals::{Signals, stop_this_process};

/// How often what is left of a command is looked for while it is ended.
const POLL: Duration = Duration::from_millis(20);

/// The time between two attempts to kill what is left.
const AGAIN: Duration = Duration::from_millis(250);

/// What has become of a run.
#[derive(Debug)]
pub(super) enum Outcome {
    Ended(Ended),
    Lost(LockError),
}

/// Returns when the command has ended; all of it, if it was killed or the lock was lost.
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
        // It may have ended before its first signal was awaited.
        let event = match command.news() {
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
        // It could not even be killed.
        (None, None) => Outcome::Ended(Ended::Signal(Signal::KILL.as_raw())),
    }
}

/// Returns when it is late, where that changes.
fn perform(action: Action, command: &mut Command, grace: Duration) -> Option<Instant> {
    match action {
        Action::Nothing => None,
        Action::Tell(number) => {
            command.tell(number);
            None
        }
        Action::TellAll(number) => {
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
            // One that is stopped would not end.
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

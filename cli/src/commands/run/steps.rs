//! The effect of each event of a run.
//!
//! ```text
//! Running ──(lost)──────────────────────────────▶ Ending ──(nothing left)──▶ Over
//!    │  └──(the command was ended by a signal)──────▲
//!    └──(the command has ended by itself)─────────────────────────────────▶ Over
//! ```
//!
//! *Ending*: all processes of the command have received SIGTERM. Those that are left after the grace period receive
//! SIGKILL. So a command that was killed leaves no children behind that would continue without the lock.

use signal_hook::consts::{SIGCHLD, SIGCONT, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};

use crate::exit::Exit;
use crate::signals::Sent;

/// The way in which the command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Code(u8),
    Signal(i32),
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Code(code) => Self::Code(code),
            Ended::Signal(number) => Self::Signal(number),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Sent(Sent),
    /// The command was stopped by this signal.
    Stopped(i32),
    Ended(Ended),
    Lost,
    /// The end of the grace period, and later the end of each pause between two attempts.
    Late,
    /// No process of the command is left.
    NothingLeft,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// A signal to the command only.
    Signal(i32),
    /// A signal to all processes of the command.
    SignalAll(i32),
    /// The stop of this process, after the command has stopped.
    Stop,
    /// SIGTERM to all processes. The grace period begins.
    End,
    /// SIGKILL to all processes.
    Kill,
}

#[derive(Debug)]
enum State {
    Running {
        /// Whether a process wanted all processes of the command to end.
        end_requested: bool,
    },
    Ending {
        ended: Option<Ended>,
        kills: u32,
    },
    Over(Option<Ended>),
}

#[derive(Debug)]
pub(super) struct Run {
    state: State,
    /// Whether the command is in the process group of this process, so that a terminal signals both.
    shares_group: bool,
}

/// The number of attempts to kill a process that the kernel does not end.
const KILLS: u32 = 20;

impl Run {
    pub(super) fn new(shares_group: bool) -> Self {
        let state = State::Running {
            end_requested: false,
        };
        Self {
            state,
            shares_group,
        }
    }

    /// Whether the run is over, and how the command has ended: `None` if it could not even be killed.
    pub(super) fn over(&self) -> Option<Option<Ended>> {
        match self.state {
            State::Over(ended) => Some(ended),
            _ => None,
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending { .. })
    }

    pub(super) fn step(&mut self, event: Event) -> Action {
        match (&mut self.state, event) {
            (State::Over(_), _) => Action::Nothing,
            (state, Event::Sent(sent)) => {
                let action = pass_on(sent, self.shares_group);
                let is_end = sent.number != SIGCONT && matches!(action, Action::SignalAll(_));
                if let (State::Running { end_requested }, true) = (state, is_end) {
                    *end_requested = true;
                }
                action
            }
            // Keys of the terminal, and a read from the terminal in the background.
            (State::Running { .. }, Event::Stopped(SIGTSTP | SIGTTIN | SIGTTOU)) => {
                match self.shares_group {
                    true => Action::Stop,
                    false => Action::Nothing,
                }
            }
            (_, Event::Stopped(_)) => Action::Nothing,
            (State::Running { end_requested }, Event::Ended(ended)) => {
                let was_killed = *end_requested || matches!(ended, Ended::Signal(_));
                if !was_killed {
                    self.state = State::Over(Some(ended));
                    return Action::Nothing;
                }
                let ended = Some(ended);
                self.state = State::Ending { ended, kills: 0 };
                Action::End
            }
            (State::Running { .. }, Event::Lost) => {
                let ended = None;
                self.state = State::Ending { ended, kills: 0 };
                Action::End
            }
            (State::Ending { ended, .. }, Event::Ended(how)) => {
                *ended = Some(how);
                Action::Nothing
            }
            (State::Ending { ended, kills }, Event::Late) if *kills == KILLS => {
                self.state = State::Over(*ended);
                Action::Nothing
            }
            (State::Ending { kills, .. }, Event::Late) => {
                *kills += 1;
                Action::Kill
            }
            (
                State::Ending {
                    ended: Some(how), ..
                },
                Event::NothingLeft,
            ) => {
                self.state = State::Over(Some(*how));
                Action::Nothing
            }
            (_, Event::Lost | Event::Late | Event::NothingLeft) => Action::Nothing,
        }
    }
}

/// The action for a signal that this process received.
fn pass_on(sent: Sent, shares_group: bool) -> Action {
    let Sent { number, by_process } = sent;
    if shares_group && !by_process {
        // The terminal has also signalled the command.
        return Action::Nothing;
    }
    match number {
        SIGCHLD => Action::Nothing,
        SIGINT | SIGQUIT | SIGTERM => Action::SignalAll(number),
        // Maybe only this process was continued.
        SIGCONT => Action::SignalAll(number),
        _ => Action::Signal(number),
    }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGHUP, SIGKILL, SIGSTOP, SIGUSR1};

    use super::*;

    fn sent(number: i32, by_process: bool) -> Event {
        Event::Sent(Sent { number, by_process })
    }

    fn steps(shares_group: bool, events: &[Event]) -> (Vec<Action>, Option<Option<Ended>>) {
        let mut run = Run::new(shares_group);
        let actions = events.iter().map(|event| run.step(*event)).collect();
        (actions, run.over())
    }

    #[test]
    fn a_run_ends_when_its_command_ends() {
        let ended = Ended::Code(3);
        let expected = (vec![Action::Nothing], Some(Some(ended)));
        assert_eq!(steps(false, &[Event::Ended(ended)]), expected);
    }

    #[test]
    fn a_killed_command_is_ended_with_all_its_processes() {
        let ended = Ended::Signal(SIGKILL);
        let (actions, over) = steps(false, &[Event::Ended(ended), Event::Late]);
        assert_eq!((actions, over), (vec![Action::End, Action::Kill], None));
        let events = [Event::Ended(ended), Event::NothingLeft];
        let expected = (vec![Action::End, Action::Nothing], Some(Some(ended)));
        assert_eq!(steps(false, &events), expected);
    }

    #[test]
    fn a_terminated_command_is_ended_with_all_its_processes() {
        let ended = Event::Ended(Ended::Code(0));
        for (number, action) in [
            (SIGTERM, Action::End),
            (SIGHUP, Action::Nothing),
            (SIGCONT, Action::Nothing),
        ] {
            let (actions, _) = steps(false, &[sent(number, true), ended]);
            assert_eq!(actions[1], action, "{number}");
        }
    }

    #[test]
    fn a_loss_ends_the_command_once() {
        let events = [
            Event::Lost,
            Event::Lost,
            Event::Late,
            Event::Late,
            Event::NothingLeft,
        ];
        let (actions, over) = steps(false, &events);
        let expected = [
            Action::End,
            Action::Nothing,
            Action::Kill,
            Action::Kill,
            Action::Nothing,
        ];
        // Without its end the command is not gone.
        assert_eq!((&actions[..], over), (&expected[..], None));
    }

    #[test]
    fn processes_that_cannot_be_killed_are_given_up() {
        let mut run = Run::new(false);
        run.step(Event::Lost);
        let kills = (0..1000).take_while(|_| run.step(Event::Late) == Action::Kill);
        assert_eq!(kills.count(), usize::try_from(KILLS).unwrap());
        assert_eq!(run.over(), Some(None));
    }

    #[test]
    fn a_signal_of_the_terminal_is_not_sent_to_the_command_again() {
        for number in [SIGINT, SIGQUIT, SIGTSTP, SIGHUP] {
            assert_eq!(steps(true, &[sent(number, false)]).0, [Action::Nothing]);
        }
        assert_eq!(
            steps(true, &[sent(SIGINT, true)]).0,
            [Action::SignalAll(SIGINT)]
        );
        assert_eq!(
            steps(true, &[sent(SIGUSR1, true)]).0,
            [Action::Signal(SIGUSR1)]
        );
        // Ctrl-C is not a reason to terminate the processes that the command leaves behind.
        let ended = Event::Ended(Ended::Code(0));
        assert_eq!(
            steps(true, &[sent(SIGINT, false), ended]).0[1],
            Action::Nothing
        );
    }

    #[test]
    fn a_job_stops_with_its_command() {
        for (shares_group, number, action) in [
            (true, SIGTSTP, Action::Stop),
            (true, SIGTTIN, Action::Stop),
            // An operator pauses the command, and its lock is kept.
            (true, SIGSTOP, Action::Nothing),
            (false, SIGTSTP, Action::Nothing),
        ] {
            assert_eq!(steps(shares_group, &[Event::Stopped(number)]).0, [action]);
        }
    }
}

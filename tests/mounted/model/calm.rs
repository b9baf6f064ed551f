//! The future of a state if from now on no caller joins and nothing goes wrong.
//!
//! The checker has no notion of "a good end can be reached". So this file constructs one: the first calm step, the
//! first one after it, and so on. Time passes only when there is nothing else to do. This proves more than that a good
//! end can be reached: it says on which path, and how soon.

use stateright::Model;

use super::config::ticks;
use super::process::Stage;
use super::protocol::{Protocol, first_calm_step};
use super::state::State;
use super::step::Step;

/// The course of a calm time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlook {
    /// Whether all callers have left in the end, and nothing is left behind.
    pub(crate) ends_well: bool,
    /// The longest time for which a caller waited and none was inside.
    pub(crate) longest_idle: u8,
}

/// A number of steps that no calm time takes, unless it is an endless loop.
const STEPS: usize = 300;

/// Returns whether there is nothing to do except to wait. Every other state leads to such a state by calm steps, so it
/// suffices to check the calm time from these states.
pub(crate) fn waits(state: &State) -> bool {
    first_calm_step(state) == Some(Step::Tick) && !is_over(state)
}

pub(crate) fn outlook(model: &Protocol, state: &State) -> Outlook {
    let mut state = state.clone();
    let mut outlook = Outlook::default();
    let mut idle = 0;
    for _ in 0..STEPS {
        if is_over(&state) {
            outlook.ends_well = true;
            return outlook;
        }
        let Some(step) = first_calm_step(&state) else {
            return outlook;
        };
        let is_tick = step == Step::Tick;
        let Some(after) = model.next_state(&state, step) else {
            return outlook;
        };
        state = after;
        let entered = state
            .holds()
            .any(|(_, stage)| matches!(stage, Stage::Inside(_)));
        let waiting = state.holds().any(|(_, stage)| stage == Stage::Waiting);
        idle = if entered || !waiting {
            0
        } else {
            idle + u8::from(is_tick)
        };
        outlook.longest_idle = outlook.longest_idle.max(idle);
    }
    outlook
}

/// The maximum time for which a lock may be idle while a caller waits. It is two heartbeats (P9), or its lease if its
/// holder has died, and the time until the next request.
pub(crate) fn patience(state: &State) -> u8 {
    if state.processes.iter().all(|process| process.alive) {
        2
    } else {
        ticks::LONG_TTL + 1
    }
}

fn is_over(state: &State) -> bool {
    let away = |stage| matches!(stage, Stage::Absent | Stage::Over);
    state.holds().all(|(_, stage)| away(stage))
        && state.store.lock.is_none()
        && state.store.queue.is_empty()
        && state.store.seqs.is_empty()
        && !state.requests.iter().any(|request| request.awaited)
}

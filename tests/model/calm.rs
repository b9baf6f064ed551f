//! What becomes of a state if from now on no caller comes and nothing goes wrong.
//!
//! The checker has no notion of "a good end can be reached". So we show how: the first calm step, and
//! the first one after it, and so on; time passes only when there is nothing else to do. That is more
//! than that a good end can be reached: it says by which way, and how soon.

use stateright::Model;

use super::config::ticks;
use super::process::Stage;
use super::protocol::Protocol;
use super::state::State;
use super::step::Step;

/// How a calm time goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlook {
    /// Whether everybody has left in the end, and nothing is left behind.
    pub(crate) ends_well: bool,
    /// The longest time for which a caller waited and none was inside.
    pub(crate) longest_idle: u8,
}

/// More steps than any calm time takes, unless it goes round in circles.
const STEPS: usize = 300;

/// Whether there is nothing to be done but to wait. Every other state comes to such a one by calm
/// steps, so it is enough to look at the calm time from these.
pub(crate) fn waits(model: &Protocol, state: &State) -> bool {
    next(model, state) == Some(Step::Tick) && !is_over(state)
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
        let Some(step) = next(model, &state) else {
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

/// How long a lock may stand idle while a caller waits: two heartbeats (P9), or its lease if its holder
/// has died, and until the next one asks.
pub(crate) fn patience(state: &State) -> u8 {
    if state.processes.iter().all(|process| process.alive) {
        2
    } else {
        ticks::LONG_TTL + 1
    }
}

fn next(model: &Protocol, state: &State) -> Option<Step> {
    let mut steps = Vec::new();
    model.actions(state, &mut steps);
    steps.into_iter().find(Step::is_calm)
}

fn is_over(state: &State) -> bool {
    let away = |stage| matches!(stage, Stage::Absent | Stage::Over);
    state.holds().all(|(_, stage)| away(stage))
        && state.store.lock.is_none()
        && state.store.queue.is_empty()
        && state.store.seqs.is_empty()
        && !state.requests.iter().any(|request| request.awaited)
}

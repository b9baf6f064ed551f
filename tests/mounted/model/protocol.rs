//! The model for the checker: the possible steps, and their effects.

use stateright::{Model, Property};

use super::super::Input;
use super::client::Client;
use super::config::Config;
use super::hold::Hold;
use super::message::Verb;
use super::process::Stage;
use super::state::State;
use super::step::Step;
use super::time;

#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    pub(crate) config: Config,
    /// The properties that must hold in every state.
    pub(crate) properties: fn() -> Vec<Property<Self>>,
    /// The property to check; all of them if it is `None`.
    pub(crate) only: Option<&'static str>,
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.config)]
    }

    /// The calm steps come first, and the passing of time is the last of them.
    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps_and_tick(state, steps);
        arrivals(&self.config, state, steps);
        let tenures = state
            .tenures()
            .filter(|(_, tenure)| tenure.renewal_is_due());
        steps.extend(tenures.map(|(hold, _)| Step::Renew(hold)));
        misfortunes(state, steps);
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        let mut client = Client {
            config: &self.config,
            state: &mut state,
        };
        client.take(step);
        time::normalize(&mut state);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = (self.properties)();
        all.retain(|property| self.only.is_none_or(|only| only == property.name));
        all
    }
}

/// The steps that happen without a cause. The passing of time is the last of them.
fn steps_and_tick(state: &State, steps: &mut Vec<Step>) {
    pending_steps(state, steps);
    if state.chances.delays > 0 || !is_late(state, steps) {
        steps.push(Step::Tick);
    }
}

/// The first calm step. No step with a cause is calm.
pub(crate) fn first_calm_step(state: &State) -> Option<Step> {
    let mut steps = Vec::new();
    steps_and_tick(state, &mut steps);
    steps.into_iter().find(Step::is_calm)
}

/// The steps that happen without a cause, except the passing of time.
fn pending_steps(state: &State, steps: &mut Vec<Step>) {
    for request in &state.requests {
        match request.answer {
            None => steps.push(Step::Execute(*request)),
            Some(_) => steps.push(Step::Receive(*request)),
        }
    }
    steps.extend(state.messages.iter().map(|&message| Step::Hear(message)));
    for (process, whole) in (0..).zip(&state.processes) {
        if whole.alive && whole.is_due() {
            steps.push(Step::Due { process });
        }
    }
    for (hold, stage) in state.holds() {
        own_steps(hold, stage, steps);
    }
}

/// Returns whether a tick now would make something late. This is true if anything is pending, except a body, which
/// takes any time, and a request that was given up.
fn is_late(state: &State, pending: &[Step]) -> bool {
    let takes_its_time = |step: &Step| matches!(step, Step::Exit(_) | Step::Leave(_));
    let urgent = |step: &Step| step.is_calm() && !takes_its_time(step);
    pending.iter().any(urgent)
        || state
            .tenures()
            .any(|(_, tenure)| tenure.won.left == 1 && tenure.renewal_is_due())
}

/// The steps that a hold takes by itself.
fn own_steps(hold: Hold, stage: Stage, steps: &mut Vec<Step>) {
    match stage {
        Stage::Granted(_) => steps.push(Step::Poll(hold)),
        Stage::Inside(tenure) if tenure.won.left == 0 => steps.push(Step::Lose(hold)),
        Stage::Inside(tenure) if tenure.wanted > 1 => steps.push(Step::Exit(hold)),
        Stage::Inside(_) => steps.push(Step::Leave(hold)),
        _ => {}
    }
}

/// Processes with the same waiters are equivalent, so they join in their order. So do the waiters of one process.
fn arrivals(config: &Config, state: &State, steps: &mut Vec<Step>) {
    let comes = |process: u8| {
        let whole = &state.processes[usize::from(process)];
        !whole.alive || whole.stages[0] != Stage::Absent
    };
    for (process, whole) in (0..).zip(&state.processes) {
        let cast = config.cast(process);
        let earlier = (0..process).rfind(|other| config.cast(*other) == cast);
        let may_come = whole.alive && earlier.is_none_or(comes);
        let mut stages = (0..).zip(&whole.stages);
        let next = stages.find(|(_, stage)| **stage == Stage::Absent);
        if let Some((waiter, _)) = next.filter(|_| may_come) {
            steps.push(Step::Arrive(Hold { process, waiter }));
        }
    }
}

fn misfortunes(state: &State, steps: &mut Vec<Step>) {
    let chances = state.chances;
    for request in &state.requests {
        if chances.timeouts > 0 && request.awaited {
            steps.push(Step::GiveUp(*request));
        }
        // An acquire is executed twice only if its client has sent it twice.
        let asks = matches!(request.verb, Verb::Acquire | Verb::Share { .. });
        let again = request.answer.is_none() && !asks;
        if chances.duplicates > 0 && again {
            steps.push(Step::ExecuteTwice(*request));
        }
    }
    if chances.lost_messages > 0 {
        steps.extend(
            state
                .messages
                .iter()
                .map(|&message| Step::LoseMessage(message)),
        );
    }
    for (hold, stage) in state.holds() {
        let Stage::Inside(tenure) = stage else {
            if chances.drops > 0 && matches!(stage, Stage::Waiting | Stage::Granted(_)) {
                steps.push(Step::Drop(hold));
            }
            continue;
        };
        if chances.reentries > 0 && tenure.won.left > 0 && tenure.wanted == 1 {
            steps.push(Step::Reenter(hold));
        }
        // A body that is dropped with an entry inside leaves both at the same time.
        if chances.drops > 0 && tenure.wanted > 1 {
            steps.push(Step::Drop(hold));
        }
    }
    if chances.setbacks > 0 && state.store.lock.is_some() {
        steps.push(Step::SetBack);
    }
    if chances.crashes > 0 {
        for (process, whole) in (0..).zip(&state.processes) {
            let idle = |stage: &Stage| matches!(stage, Stage::Absent | Stage::Over);
            if whole.alive && !whole.stages.iter().all(idle) {
                steps.push(Step::Crash { process });
            }
        }
    }
}

impl Client<'_> {
    fn take(&mut self, step: Step) {
        match step {
            Step::Execute(request) => self.execute(request, false),
            Step::ExecuteTwice(request) => self.execute(request, true),
            Step::Receive(request) => self.receive(request),
            Step::GiveUp(request) => self.give_up(request),
            Step::Hear(message) => {
                self.state.messages.retain(|other| *other != message);
                self.hear(message);
            }
            Step::LoseMessage(message) => {
                self.state.messages.retain(|other| *other != message);
                self.state.chances.lost_messages -= 1;
            }
            Step::Due { process } => self.step(process, Input::Due),
            Step::Poll(hold) => self.poll(hold),
            Step::Exit(hold) => self.exit(hold),
            Step::Leave(hold) => self.leave(hold),
            Step::Lose(hold) => self.lose(hold),
            Step::Tick => {
                let mut pending = Vec::new();
                pending_steps(self.state, &mut pending);
                let late = is_late(self.state, &pending);
                self.state.chances.delays -= u8::from(late);
                time::pass(self.config, self.state);
            }
            Step::Arrive(hold) => self.arrive(hold),
            Step::Renew(hold) => self.renew(hold),
            Step::Reenter(hold) => {
                self.state.chances.reentries -= 1;
                self.reenter(hold);
            }
            Step::Drop(hold) => {
                self.state.chances.drops -= 1;
                self.drop_future(hold);
            }
            Step::Crash { process } => self.crash(process),
            Step::SetBack => {
                self.state.chances.setbacks -= 1;
                self.state.store.clock = 0;
                // The store does not know the tokens of turns in memory.
                self.state.ledger.excused |= self.state.ledger.turned;
                self.state.ledger.set_back = true;
            }
        }
    }
}

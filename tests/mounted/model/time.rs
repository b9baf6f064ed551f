//! The clock, and the form in which states are compared.
//!
//! Time passes at any moment, whatever there is to do. So a process that is paused and a message that is late only need
//! time to pass. Instants are stored as durations from now. They are bounded where they make no further difference. So
//! the number of states is finite however much time passes.

use super::config::{Config, ticks};
use super::hold::Token;
use super::machine;
use super::message::{Acquired, Answer, Request, Verb};
use super::mutation::Mutation;
use super::process::{Stage, Tenure};
use super::state::State;

/// One tick.
pub(crate) fn pass(config: &Config, state: &mut State) {
    let State { store, ledger, .. } = state;
    if let Some(lock) = &mut store.lock {
        lock.lease = lock.lease.saturating_sub(1);
        for own in lock.members.iter_mut().flat_map(|member| &mut member.own) {
            *own = own.saturating_sub(1);
        }
        if lock.lease == 0 {
            // It expires by the clock from which its token came. The turns in memory were shorter than its lease.
            store.clock = match config.mutation {
                Some(Mutation::TokensStartAgain) => 0,
                _ if lock.ahead => store.clock,
                _ => store.clock.max(ledger.given),
            };
            store.lock = None;
            ledger.lapsed = true;
        }
    }
    for place in &mut store.queue {
        place.life = place.life.saturating_sub(1);
    }
    if config.mutation != Some(Mutation::DeadHeadStays) {
        // The keys of the queue are removed with the last place.
        let ended = store.queue.iter().all(|place| place.life == 0);
        store.queue.retain(|_| !ended);
    }
    for request in &mut state.requests {
        request.age += 1;
    }
    for message in &mut state.messages {
        message.age += 1;
    }
    for process in &mut state.processes {
        for stage in &mut process.stages {
            match stage {
                Stage::Inside(Tenure { won, .. }) | Stage::Granted(won) => {
                    won.left = won.left.saturating_sub(1);
                }
                _ => {}
            }
        }
        machine::pass(&mut process.queue);
        if config.mutation == Some(Mutation::HeartbeatNeverAsks) {
            process.queue.request_at = None;
        }
    }
}

/// Brings a state into a form in which equivalent states are equal.
pub(crate) fn normalize(state: &mut State) {
    for request in &mut state.requests {
        let span = relevant_age(request);
        request.age = request.age.min(span);
    }
    state
        .requests
        .retain(|request| request.awaited || request.answer.is_none());
    state.requests.sort_unstable();
    for message in &mut state.messages {
        // It only says that it is time to send a request.
        if message.age >= ticks::GRANT {
            (message.age, message.token) = (ticks::GRANT, 0);
        }
    }
    state.messages.sort_unstable();
    state.messages.dedup();
    for process in &mut state.processes {
        machine::normalize(&mut process.queue);
    }
    // Tombstones that no acquire can meet any more are removed.
    let requests = &state.requests;
    state.store.gone.retain(|&gone| {
        let meets = |request: &Request| match request.verb {
            Verb::Acquire => request.hold == gone,
            Verb::Share { holds, .. } => holds.has(gone),
            _ => false,
        };
        requests.iter().any(meets)
    });
    // The number of a dead process is removed, if no change is in flight.
    let State {
        store, processes, ..
    } = state;
    store.seqs.retain(|&(of, _)| {
        let meets =
            |request: &Request| request.hold == of && matches!(request.verb, Verb::Depth { .. });
        processes[usize::from(of.process)].alive || requests.iter().any(meets)
    });
    store.seqs.sort_unstable();
    state.store.gone.sort_unstable();
    state.store.gone.dedup();
    renumber(state);
}

/// The age from which on nothing depends on it.
fn relevant_age(request: &Request) -> u8 {
    let counts = match request.answer {
        None => true,
        Some(Answer::Acquired(acquired)) => matches!(acquired, Acquired::Held { .. }),
        Some(Answer::Shared { inside, .. }) => !inside.is_empty(),
        Some(Answer::Present(present)) => present,
    };
    match request.verb {
        _ if !counts || !request.awaited => 0,
        Verb::Acquire | Verb::Share { .. } => ticks::TTL,
        Verb::Release { .. } => 0,
        Verb::Keep { ttl } | Verb::Renew { ttl } => ttl,
        Verb::Depth { lengthen, .. } => u8::from(lengthen) * ticks::LONG_TTL,
    }
}

/// Numbers the tokens again from 1, in their order.
fn renumber(state: &mut State) {
    let mut tokens = Vec::with_capacity(8);
    each_token(state, |token| tokens.push(*token));
    tokens.push(0);
    tokens.sort_unstable();
    tokens.dedup();
    if usize::from(tokens[tokens.len() - 1]) < tokens.len() {
        return;
    }
    each_token(state, |token| {
        let rank = tokens.iter().take_while(|other| *other < token).count();
        *token = u8::try_from(rank).unwrap_or(Token::MAX);
    });
}

fn each_token(state: &mut State, mut visit: impl FnMut(&mut Token)) {
    visit(&mut state.store.clock);
    visit(&mut state.ledger.given);
    visit(&mut state.ledger.entered);
    state
        .store
        .lock
        .iter_mut()
        .for_each(|lock| visit(&mut lock.token));
    for message in &mut state.messages {
        visit(&mut message.token);
    }
    for request in &mut state.requests {
        if let Some(Answer::Acquired(Acquired::Held { token }) | Answer::Shared { token, .. }) =
            &mut request.answer
        {
            visit(token);
        }
    }
    for process in &mut state.processes {
        for stage in &mut process.stages {
            if let Stage::Inside(Tenure { won, .. }) | Stage::Granted(won) = stage {
                visit(&mut won.token);
            }
        }
        machine::each_token(&mut process.queue, &mut visit);
    }
}

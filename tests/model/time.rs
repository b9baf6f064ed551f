//! The clock, and the form in which states are compared.
//!
//! Time passes at any moment, whatever there is to do: so a process that is paused and a message that
//! is late are nothing but time that passes. Instants are kept as spans from now, bounded by where
//! they make no difference any more; so the states are finitely many however much time passes.

use crate::{
    config::{Config, ticks},
    message::{AcquireReply, Answer, Request, Verb},
    mutation::Mutation,
    process::{Attempt, Stage},
    state::{State, Token},
};

/// One tick.
pub(crate) fn pass(config: &Config, state: &mut State) {
    let State { store, ledger, .. } = state;
    if let Some(lock) = &mut store.lock {
        lock.lease -= 1;
        if lock.lease == 0 {
            store.lock = None;
            ledger.lapsed = true;
            if config.mutation == Some(Mutation::TokensStartAgain) {
                store.last = 0;
            }
        }
    }
    for place in &mut store.queue {
        place.life = place.life.saturating_sub(1);
    }
    if config.mutation != Some(Mutation::DeadHeadStays) {
        // The keys of the queue end with the last place.
        let ended = store.queue.iter().all(|place| place.life == 0);
        store.queue.retain(|_| !ended);
    }
    for request in &mut state.requests {
        request.age += 1;
    }
    for news in &mut state.news {
        news.age += 1;
    }
    let heartbeats = config.mutation != Some(Mutation::HeartbeatNeverAsks);
    for process in &mut state.processes {
        for waiter in &mut process.waiters {
            match &mut waiter.stage {
                Stage::Inside(tenure) => tenure.left = tenure.left.saturating_sub(1),
                Stage::Granted { left, .. } => *left = left.saturating_sub(1),
                _ => {}
            }
            if let Some(notice) = &mut waiter.notice {
                notice.age += 1;
            }
        }
        let first = process.line.waiting.first();
        let idle = |&first: &u8| process.waiters[usize::from(first)].attempt == Attempt::None;
        process.line.due |= heartbeats && first.is_some_and(idle);
    }
}

/// Brings a state into the form that all states have between which nothing can tell.
pub(crate) fn normalize(state: &mut State) {
    for request in &mut state.requests {
        let span = relevant_age(request);
        request.age = request.age.min(span);
    }
    state
        .requests
        .retain(|request| request.awaited || request.answer.is_none());
    state.requests.sort_unstable();
    let waiters = state
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.waiters);
    let notices = waiters.filter_map(|waiter| waiter.notice.as_mut());
    for news in state.news.iter_mut().chain(notices) {
        // It tells only that it is time to ask.
        if news.age >= ticks::GRANT {
            (news.age, news.token) = (ticks::GRANT, 0);
        }
    }
    state.news.sort_unstable();
    state.news.dedup();
    // A tombstone that no acquire can meet any more.
    let requests = &state.requests;
    state.store.gone.retain(|&gone| {
        let meets = |request: &Request| request.hold == gone && request.verb == Verb::Acquire;
        requests.iter().any(meets)
    });
    state.store.gone.sort_unstable();
    state.store.gone.dedup();
    renumber(state);
}

/// From which age on nothing depends on it.
fn relevant_age(request: &Request) -> u8 {
    let counts = match request.answer {
        None => true,
        Some(Answer::AcquireReply(acquired) | Answer::ReleaseReply(Some(acquired))) => {
            matches!(acquired, AcquireReply::Held { .. })
        }
        Some(Answer::ReleaseReply(None)) => false,
        Some(Answer::Present(present)) => present,
    };
    match request.verb {
        _ if !counts || !request.awaited => 0,
        Verb::Acquire => ticks::TTL,
        Verb::Release { successor, .. } => successor.map_or(0, |_| ticks::TTL),
        Verb::Renew { ttl } => ttl,
        Verb::Depth { lengthen, .. } => u8::from(lengthen) * ticks::LONG_TTL,
    }
}

/// Numbers the tokens from 1 anew, in their order.
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
    visit(&mut state.store.last);
    visit(&mut state.ledger.given);
    visit(&mut state.ledger.entered);
    state
        .store
        .lock
        .iter_mut()
        .for_each(|lock| visit(&mut lock.token));
    state
        .news
        .iter_mut()
        .for_each(|news| visit(&mut news.token));
    for request in &mut state.requests {
        if let Some(
            Answer::AcquireReply(AcquireReply::Held { token })
            | Answer::ReleaseReply(Some(AcquireReply::Held { token })),
        ) = &mut request.answer
        {
            visit(token);
        }
    }
    for waiter in state
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.waiters)
    {
        match &mut waiter.stage {
            Stage::Granted { token, .. } => visit(token),
            Stage::Inside(tenure) => visit(&mut tenure.token),
            _ => {}
        }
        waiter
            .notice
            .iter_mut()
            .for_each(|notice| visit(&mut notice.token));
    }
}

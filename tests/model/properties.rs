//! What must hold in every state.

use stateright::Property;

use super::{
    calm,
    hold::Hold,
    process::{Stage, Tenure},
    protocol::Protocol,
    state::State,
};

pub(crate) const EXCLUSION: &str = "exclusion";
pub(crate) const BACKING: &str = "a valid lease is backed";
pub(crate) const TOKEN_ORDER: &str = "token order";
pub(crate) const DEPTH: &str = "depth";
pub(crate) const NO_ORPHAN: &str = "no orphan";
pub(crate) const NO_LOST_WAKE_UP: &str = "no lost wake-up";
pub(crate) const PROGRESS: &str = "progress";

pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(EXCLUSION, exclusion),
        Property::always(BACKING, backing),
        Property::always(TOKEN_ORDER, token_order),
        Property::always(DEPTH, depth),
        Property::always(NO_ORPHAN, no_orphan),
        Property::always(NO_LOST_WAKE_UP, no_lost_wake_up),
        Property::always(PROGRESS, progress),
    ]
}

/// The bodies whose local deadline has not passed. Any other is dropped before it runs on.
fn valid(state: &State) -> impl Iterator<Item = (Hold, Tenure)> {
    state.tenures().filter(|(_, tenure)| tenure.won.left > 0)
}

/// P1: at most one is inside a body under a valid lease.
fn exclusion(_: &Protocol, state: &State) -> bool {
    valid(state).count() <= 1
}

/// P5: a hold that is inside under a valid lease stands in the lock, with its token. It is what makes
/// exclusion hold, and why a hold that is told it is gone has not lost the lock without a cause.
fn backing(_: &Protocol, state: &State) -> bool {
    valid(state).all(|(hold, tenure)| {
        let lock = state.store.lock;
        lock.is_some_and(|lock| {
            lock.hold == hold && lock.token == tenure.won.token && lock.lease >= tenure.won.left
        })
    })
}

/// P11: each token is greater than those that were given before it, and than those that have entered.
fn token_order(_: &Protocol, state: &State) -> bool {
    !state.ledger.disorder
}

/// P3, P8: what a hold believes of its depth is so.
fn depth(_: &Protocol, state: &State) -> bool {
    valid(state).all(|(hold, tenure)| {
        let lock = state.store.lock.filter(|lock| lock.hold == hold);
        tenure.stored.is_none() || tenure.stored == lock.map(|lock| lock.depth)
    })
}

/// P7, P8: a hold whose end was answered stands neither in the lock nor in the line, and never will; nor is there
/// a number of its depth changes.
fn no_orphan(_: &Protocol, state: &State) -> bool {
    let lock = state.store.lock.iter().map(|lock| lock.hold);
    let queue = state.store.queue.iter().map(|place| place.hold);
    let numbers = state.store.seqs.iter().map(|(hold, _)| *hold);
    lock.chain(queue)
        .chain(numbers)
        .all(|hold| !state.process(hold).alive || state.stage(hold) != Stage::Over)
}

/// P9: a release never leaves the lock free while a live process waits; and whatever has gone wrong,
/// it does not stand idle for longer than it may.
fn no_lost_wake_up(model: &Protocol, state: &State) -> bool {
    let free = state.store.lock.is_none() && !state.ledger.lapsed;
    if free && state.store.queue.iter().any(|place| place.life > 0) {
        return false;
    }
    if !calm::waits(model, state) {
        return true;
    }
    let outlook = calm::outlook(model, state);
    !outlook.ends_well || outlook.longest_idle <= calm::patience(state)
}

/// Everybody who waits gets the lock in the end, and nothing is left behind.
fn progress(model: &Protocol, state: &State) -> bool {
    !calm::waits(model, state) || calm::outlook(model, state).ends_well
}

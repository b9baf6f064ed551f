//! What must hold in every state.

use stateright::Property;

use super::calm;
use super::process::Stage;
use super::protocol::Protocol;
use super::state::{Member, Place, State, Want};
use crate::base::options::Mode;

pub(crate) const EXCLUSION: &str = "exclusion";
pub(crate) const PERMITS: &str = "no more than a permit's limit";
pub(crate) const BACKING: &str = "a valid lease is backed";
pub(crate) const TOKEN_ORDER: &str = "token order";
pub(crate) const DEPTH: &str = "depth";
pub(crate) const NO_ORPHAN: &str = "no orphan";
pub(crate) const NO_LOST_WAKE_UP: &str = "no lost wake-up";
pub(crate) const PROGRESS: &str = "progress";
pub(crate) const FAIRNESS: &str = "first come, first served";
pub(crate) const END: &str = "a lock ends with its last reader";

pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(EXCLUSION, exclusion),
        Property::always(PERMITS, permits),
        Property::always(BACKING, backing),
        Property::always(TOKEN_ORDER, token_order),
        Property::always(DEPTH, depth),
        Property::always(NO_ORPHAN, no_orphan),
        Property::always(NO_LOST_WAKE_UP, no_lost_wake_up),
        Property::always(PROGRESS, progress),
        Property::always(FAIRNESS, fairness),
        Property::always(END, end),
    ]
}

/// P1: at most one caller is inside a body under a valid lease, or any number of readers.
fn exclusion(model: &Protocol, state: &State) -> bool {
    let is_reader = |(hold, _)| model.config.mode(hold) == Mode::Shared;
    state.valid().count() <= 1 || state.valid().all(is_reader)
}

/// P1: a permit is let in only while fewer holders than its limit are inside under a valid lease. The holders inside
/// have entered in some order in which each of them was within its limit.
fn permits(model: &Protocol, state: &State) -> bool {
    let limits = state.valid().map(|(hold, _)| model.config.limit(hold));
    let mut limits: Vec<_> = limits.map(|limit| limit.unwrap_or(u8::MAX)).collect();
    limits.sort_unstable();
    !state.ledger.crowded && (1..).zip(limits).all(|(inside, limit)| inside <= limit)
}

/// P5: a hold that is inside under a valid lease is in the lock, with its token. This is the basis of exclusion. It is
/// also the reason why a hold that is reported as gone has not lost the lock without a cause.
fn backing(_: &Protocol, state: &State) -> bool {
    state.valid().all(|(hold, tenure)| {
        let lock = state.store.lock.as_ref();
        lock.is_some_and(|lock| {
            let member = lock.member(hold);
            let lease = member.map(|member| member.own.unwrap_or(lock.lease));
            // The tokens of further turns are only known in memory.
            let is_its = match tenure.won.turns {
                0 => lock.token == tenure.won.token,
                _ => lock.token < tenure.won.token,
            };
            is_its && lease >= Some(tenure.won.left)
        })
    })
}

/// P11: each token is greater than those that were given before it, and than those that have entered.
fn token_order(_: &Protocol, state: &State) -> bool {
    !state.ledger.disorder
}

/// P3, P8: what a hold believes about its depth is true.
fn depth(_: &Protocol, state: &State) -> bool {
    state.valid().all(|(hold, tenure)| {
        let lock = state.store.lock.as_ref();
        let member = lock.and_then(|lock| lock.member(hold));
        tenure.stored.is_none() || tenure.stored == member.map(|member| member.depth)
    })
}

/// P7, P8: a hold whose end was answered is neither in the lock nor in the line, and never will be. There is no number
/// of its depth changes either.
fn no_orphan(_: &Protocol, state: &State) -> bool {
    let members = state.store.lock.iter().flat_map(|lock| &lock.members);
    let lock = members.map(|member| member.hold);
    let queue = state
        .store
        .queue
        .iter()
        .flat_map(|place| place.holds.iter());
    let numbers = state.store.seqs.iter().map(|(hold, _)| *hold);
    lock.chain(queue)
        .chain(numbers)
        .all(|hold| !state.process(hold).alive || state.stage(hold) != Stage::Over)
}

/// P9: a release never leaves the lock free while a live process waits. Whatever has gone wrong, the lock is not idle
/// for longer than it may be.
fn no_lost_wake_up(model: &Protocol, state: &State) -> bool {
    let free = state.store.lock.is_none() && !state.ledger.lapsed;
    if free && state.store.queue.iter().any(|place| place.life > 0) {
        return false;
    }
    // A lock that readers share has no reader at the head of its line, and no permit that is within its limit.
    let reads = |member: &Member| model.config.mode(member.hold) == Mode::Shared;
    let lock = state.store.lock.as_ref();
    let is_shared = lock.is_some_and(|lock| lock.is_shared() || lock.members.iter().any(reads));
    let first = state.store.queue.first();
    let inside = lock.map_or(0, |lock| lock.members.len());
    let may_enter = |place: &Place| match place.want {
        Want::Shared { limit } => limit.is_none_or(|limit| inside < usize::from(limit)),
        Want::Alone => false,
    };
    if is_shared && first.is_some_and(|place| place.life > 0 && may_enter(place)) {
        return false;
    }
    if !calm::waits(state) {
        return true;
    }
    let outlook = calm::outlook(model, state);
    !outlook.ends_well || outlook.longest_idle <= calm::patience(state)
}

/// All callers that wait get the lock in the end, and nothing is left behind.
fn progress(model: &Protocol, state: &State) -> bool {
    !calm::waits(state) || calm::outlook(model, state).ends_well
}

/// P10: no reader enters past another process that waits, and the turns of a process have an end.
fn fairness(model: &Protocol, state: &State) -> bool {
    let most = model.config.turns;
    !state.ledger.overtaken && state.valid().all(|(_, tenure)| tenure.won.turns <= most)
}

/// A lock that readers share exists for other programs no longer than its readers do.
fn end(_: &Protocol, state: &State) -> bool {
    let lock = state.store.lock.as_ref();
    let lock = lock.filter(|lock| lock.is_shared());
    lock.is_none_or(|lock| {
        let leases = lock.members.iter().filter_map(|member| member.own);
        leases.max() == Some(lock.lease)
    })
}

//! P5 and P6: a holder that loses its lock is notified, and no holder loses a lock that was not taken away.

use std::collections::HashMap;

use super::verdict::{Rule, Verdict};
use crate::fault::{Fault, Kind};
use crate::history::{History, Hold};
use crate::ledger::{Outcome, Reason};

/// All sections of one hold of a key. If it is handed off in memory, there are several, one after the other.
struct Span {
    first: u64,
    /// The longest lease that any of them may have requested.
    ttl: u64,
    valid: u64,
}

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    // Keys that are acquired together are held under one id.
    let mut spans: HashMap<(&str, &str), Span> = HashMap::new();
    for (op, hold) in history.sections() {
        let Some(valid) = hold.valid else {
            continue;
        };
        let first = Span {
            first: hold.entered,
            ttl: hold.ttl,
            valid,
        };
        let span = spans.entry((&op.key, &hold.id)).or_insert(first);
        span.ttl = span.ttl.max(hold.ttl);
        span.valid = span.valid.max(valid);
        if let Some(at) = gone(hold)
            && !history.taken(&op.key, hold.entered.saturating_sub(history.lease()), at)
            && !met_itself(history, hold, at)
        {
            let what = format!("{} on {} at {at}", op.name(), op.key);
            verdict.add(Rule::GoneWithoutCause, what);
        }
    }
    for op in history.ops.iter().filter(|op| op.hold.is_none()) {
        // It had this key, and waited for the others of its request. Replicas confirm all of them at the end.
        if let Some((at, Outcome::Lost(Reason::Deleted))) = &op.ended
            && !history.forgotten(&op.key, op.wants, *at)
        {
            let what = format!("{} on {} at {at}, before its entry", op.name(), op.key);
            verdict.add(Rule::GoneWithoutCause, what);
        }
    }
    for ((key, id), span) in spans {
        let taken = |fault: &&Fault| {
            // No renewal after the fault can have been confirmed.
            let told = fault.end + span.ttl;
            let is_early = span.first < fault.start && told < span.valid;
            is_early && fault.takes(key) && !comes_back(history, fault, key)
        };
        if let Some(fault) = history.faults.iter().find(taken) {
            let what = format!(
                "{id} on {key} counted as valid at {}, {} ms after {}",
                span.valid,
                (span.valid - fault.end) / 1_000_000,
                fault.kind.name()
            );
            verdict.add(Rule::NeverTold, what);
        }
    }
}

/// Returns whether a failover may have restored what this fault has taken. Or the fault may have affected only the old
/// primary, or has missed a lock that moved to another node.
fn comes_back(history: &History, taking: &Fault, key: &str) -> bool {
    let meets = |fault: &&Fault| fault.start <= taking.end && fault.end >= taking.start;
    let mut met = history.faults.iter().filter(meets);
    met.any(|fault| fault.may_take(key) || fault.replaces(key) || fault.moves(key))
}

fn gone(hold: &Hold) -> Option<u64> {
    let (at, reason) = hold.lost?;
    (reason == Reason::Deleted).then_some(at)
}

/// Returns whether its release may have been executed twice, and answered for the second time.
fn met_itself(history: &History, hold: &Hold, at: u64) -> bool {
    let Some((left, _)) = hold.left.filter(|(left, _)| *left <= at) else {
        return false;
    };
    let twice = |fault: &Fault| fault.kind == Kind::Twice && fault.start <= at && fault.end >= left;
    history.faults.iter().any(twice)
}

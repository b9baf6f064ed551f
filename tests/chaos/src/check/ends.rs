//! The checks of the end of a run: the requests, the depths, the workers, and what remained in the store.

use super::verdict::{Rule, Verdict};
use crate::clock::SECOND;
use crate::crew::End;
use crate::history::{History, Op};
use crate::ledger::Outcome;
use crate::plan::KEYS;

/// The time by which a request may exceed its limit on a busy machine.
const SLACK: u64 = 5 * SECOND;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    for op in &history.ops {
        depths(history, op, verdict);
        outcome(op, verdict);
        wait(history, op, verdict);
    }
    for (worker, end) in &history.workers {
        match end {
            End::Killed => continue,
            End::Badly => verdict.add(Rule::Worker, format!("{worker} ended by itself")),
            End::Hung => verdict.add(Rule::Worker, format!("{worker} hung")),
            End::Well => {}
        }
        for key in KEYS {
            let had = |(who, what, _): &(String, String, u64)| who == worker && what == key;
            if !history.calm.iter().any(had) {
                verdict.add(Rule::Worker, format!("{worker} did not get {key}"));
            }
        }
        let unended = |op: &&Op| op.worker == *worker && op.ended.is_none();
        for op in history.ops.iter().filter(unended) {
            verdict.add(
                Rule::Overstayed,
                format!("{} on {} never ended", op.name(), op.key),
            );
        }
    }
    for key in &history.leftovers {
        verdict.add(Rule::Leftover, key.clone());
    }
}

fn depths(history: &History, op: &Op, verdict: &mut Verdict) {
    for &(at, wanted, stored) in &op.wrong_depths {
        let entered = op.hold.as_ref().map_or(op.wants, |hold| hold.entered);
        if !history.forgotten(&op.key, entered.saturating_sub(history.lease()), at) {
            let what = format!("{} on {}: {stored} instead of {wanted}", op.name(), op.key);
            verdict.add(Rule::Depth, what);
        }
    }
}

fn outcome(op: &Op, verdict: &mut Verdict) {
    let Some((_, outcome)) = &op.ended else {
        return;
    };
    let finished = op.hold.as_ref().and_then(|hold| hold.left);
    match (finished, outcome) {
        (_, Outcome::Unexpected(error)) => {
            verdict.add(
                Rule::Unexpected,
                format!("{} on {}: {error}", op.name(), op.key),
            );
        }
        (Some((_, true)), Outcome::Unavailable | Outcome::Timeout | Outcome::Busy) => {
            let what = format!("{} on {}: {outcome:?}", op.name(), op.key);
            verdict.add(Rule::ResultMasked, what);
        }
        _ => {}
    }
}

fn wait(history: &History, op: &Op, verdict: &mut Verdict) {
    let entered = op.hold.as_ref().map(|hold| hold.entered);
    let Some(end) = entered.or(op.ended.as_ref().map(|(at, _)| *at)) else {
        return;
    };
    let stopped = history.stopped(&op.worker, op.wants, end);
    if end - op.wants > op.patience + stopped + SLACK {
        let waited = (end - op.wants) / 1_000_000;
        verdict.add(
            Rule::Overstayed,
            format!("{} on {}: {waited} ms", op.name(), op.key),
        );
    }
}

//! P1 and P11: sections under valid leases never overlap, unless all of them are readers, or have permits and are not
//! more than the permits. Tokens grow with every entry of a writer.

use std::collections::HashMap;

use super::verdict::{Rule, Verdict};
use crate::history::{History, Hold, Op};
use crate::plan;

type Section<'a> = (&'a Op, &'a Hold);

/// The state of one key at a certain time.
#[derive(Default)]
struct Key<'a> {
    /// Sections that may not have ended.
    inside: Vec<Section<'a>>,
    /// The entry with the greatest token.
    newest: Option<Section<'a>>,
}

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut keys: HashMap<&str, Key<'_>> = HashMap::new();
    let mut tokens: HashMap<(&str, u64), Section<'_>> = HashMap::new();
    for (op, hold) in history.sections() {
        let (other, first) = *tokens.entry((&op.key, hold.token)).or_insert((op, hold));
        if !std::ptr::eq(first, hold) && !first.shares_with(hold) {
            let what = format!(
                "{} and {}: {} on {}",
                other.name(),
                op.name(),
                hold.token,
                op.key
            );
            verdict.add(Rule::TokenTwice, what);
        }
        if hold.valid.is_none() {
            continue;
        }
        let key = keys.entry(&op.key).or_default();
        key.inside.retain(|(_, other)| other.until > hold.entered);
        overlaps(history, verdict, key, (op, hold));
        permits(history, verdict, key, (op, hold));
        key.inside.push((op, hold));
        order(history, verdict, key, (op, hold));
    }
}

fn overlaps(history: &History, verdict: &mut Verdict, key: &Key<'_>, next: Section<'_>) {
    let (op, hold) = next;
    let apart = |older: &&Section<'_>| !older.1.shares_with(hold);
    for (other, older) in key.inside.iter().filter(apart) {
        if forgotten(history, older, next) {
            let from = older.entered.saturating_sub(history.lease());
            verdict.excuse(history, &op.key, from, hold.entered);
            continue;
        }
        let what = format!(
            "{} entered {} at {}, while {} (token {}, entered at {}) was inside until {}",
            op.name(),
            op.key,
            hold.entered,
            other.name(),
            older.token,
            older.entered,
            older.until
        );
        verdict.add(Rule::Overlap, what);
    }
}

/// Checks at each entry with a permit that there are not more holders than permits. Holders that the server may have
/// forgotten do not count.
fn permits(history: &History, verdict: &mut Verdict, key: &Key<'_>, next: Section<'_>) {
    let (op, hold) = next;
    let Some(limit) = plan::permits(&op.key).filter(|_| hold.shares) else {
        return;
    };
    let beside = |older: &&Section<'_>| older.1.shares_with(hold);
    let beside: Vec<_> = key.inside.iter().filter(beside).collect();
    let is_known = |older: &&&Section<'_>| !forgotten(history, older.1, next);
    let holders = beside.iter().filter(is_known).count() + 1;
    let fits = |holders| u32::try_from(holders).is_ok_and(|holders| holders <= limit);
    if !fits(holders) {
        let others: Vec<_> = beside.iter().map(|(other, _)| other.name()).collect();
        let what = format!(
            "{} entered {} at {} beside {}, with {limit} permits",
            op.name(),
            op.key,
            hold.entered,
            others.join(", ")
        );
        verdict.add(Rule::TooMany, what);
    } else if !fits(beside.len() + 1) {
        verdict.excused += 1;
    }
}

/// Returns whether the server may have lost the lock of this holder before the next one entered.
fn forgotten(history: &History, older: &Hold, (op, hold): Section<'_>) -> bool {
    history.taken(
        &op.key,
        older.entered.saturating_sub(history.lease()),
        hold.entered,
    )
}

fn order<'a>(history: &History, verdict: &mut Verdict, key: &mut Key<'a>, next: Section<'a>) {
    let (op, hold) = next;
    let Some((other, newest)) = key.newest.filter(|(_, newest)| newest.token > hold.token) else {
        key.newest = Some(next);
        return;
    };
    // It was granted its lock before the other one, and entered later.
    if history.taken(
        &op.key,
        hold.entered.saturating_sub(history.lease()),
        newest.entered,
    ) {
        let from = hold.entered.saturating_sub(history.lease());
        verdict.excuse(history, &op.key, from, newest.entered);
        return;
    }
    let what = format!(
        "{} entered {} at {} with {}, after {} had entered at {} with {}",
        op.name(),
        op.key,
        hold.entered,
        hold.token,
        other.name(),
        newest.entered,
        newest.token
    );
    verdict.add(Rule::TokenOrder, what);
}

//! P1 and P11: sections under valid leases never overlap unless they are all readers', and tokens grow with every
//! entry of a writer.

use std::collections::HashMap;

use super::verdict::{LEASE, Rule, Verdict};
use crate::history::{History, Hold, Op};

type Section<'a> = (&'a Op, &'a Hold);

/// What is known of one key at some time.
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
            verdict.stillborn += 1;
            continue;
        }
        let key = keys.entry(&op.key).or_default();
        overlaps(history, verdict, key, (op, hold));
        order(history, verdict, key, (op, hold));
    }
}

fn overlaps<'a>(history: &History, verdict: &mut Verdict, key: &mut Key<'a>, next: Section<'a>) {
    let (op, hold) = next;
    key.inside.retain(|(_, other)| other.until > hold.entered);
    let apart = |older: &&Section<'_>| !older.1.shares_with(hold);
    for (other, older) in key.inside.iter().filter(apart) {
        if history.taken(&op.key, older.entered.saturating_sub(LEASE), hold.entered) {
            verdict.excused += 1;
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
    key.inside.push(next);
}

fn order<'a>(history: &History, verdict: &mut Verdict, key: &mut Key<'a>, next: Section<'a>) {
    let (op, hold) = next;
    let Some((other, newest)) = key.newest.filter(|(_, newest)| newest.token > hold.token) else {
        key.newest = Some(next);
        return;
    };
    // It was given its lock before the other one, and came to its entry later.
    if history.taken(&op.key, hold.entered.saturating_sub(LEASE), newest.entered) {
        verdict.excused += 1;
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

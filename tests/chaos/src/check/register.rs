//! The register: no update is lost, no stale transaction is accepted, and what was committed exists.

use std::collections::BTreeMap;

use super::verdict::{Rule, Verdict};
use crate::history::History;
use crate::ledger::Answer;
use crate::tally::{Tally, Total};

/// The number of writes that the resource has rejected from which on the register must have rejected some too. The same
/// sections write to both.
const ENOUGH: usize = 20;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let Some(totals) = &history.register else {
        return;
    };
    let mut keys: BTreeMap<&str, (Tally, Total)> = BTreeMap::new();
    for op in &history.ops {
        keys.entry(&op.key).or_default().0.add(&op.register);
    }
    for total in totals {
        keys.entry(&total.key).or_default().1 = total.clone();
    }
    for (key, (known, total)) in keys {
        let Total {
            value, rows, stale, ..
        } = total;
        if value != rows {
            let what = format!("{key}: {value} after {rows} transactions");
            verdict.add(Rule::LostUpdate, what);
        }
        if stale > 0 {
            let what = format!("register, {key}: {stale} behind greater tokens");
            verdict.add(Rule::StaleWrite, what);
        }
        let Tally {
            committed, sent, ..
        } = known;
        if !(committed..=sent).contains(&rows) {
            let what =
                format!("{key}: {rows} transactions, {committed} acknowledged of {sent} sent");
            verdict.add(Rule::Commits, what);
        }
    }
    let is_refused = |answer| answer == Answer::Refused;
    let writes = history.writes.iter().filter(|write| !write.reads);
    let refused = writes.filter(|write| is_refused(write.answer)).count();
    if refused >= ENOUGH && history.transactions().refused == 0 {
        let what = format!("the resource has refused {refused} writes, and the register none");
        verdict.add(Rule::NoneRefused, what);
    }
}

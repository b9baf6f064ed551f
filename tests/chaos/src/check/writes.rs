//! The fenced resource: no stale write or read is accepted, and none is rejected under a valid lease.

use std::collections::HashMap;

use super::verdict::{Rule, Verdict};
use crate::history::History;
use crate::ledger::Answer;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let mut greatest: HashMap<&str, u64> = HashMap::new();
    for write in &history.writes {
        let greatest = greatest.entry(&write.key).or_default();
        if write.answer == Answer::Accepted && write.token < *greatest {
            let what = format!(
                "{} on {}: {} after {greatest}",
                write.writer, write.key, write.token
            );
            verdict.add(Rule::StaleWrite, what);
        }
        if !write.reads {
            *greatest = write.token.max(*greatest);
        }
    }
    for (op, hold) in history.sections() {
        let from = hold.entered.saturating_sub(history.lease());
        for &at in &hold.refused {
            if !history.taken(&op.key, from, at) {
                let what = format!("{} on {} with {} at {at}", op.name(), op.key, hold.token);
                verdict.add(Rule::ValidRefused, what);
            }
        }
    }
}

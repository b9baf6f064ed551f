//! P9: the time for which no worker was inside although one waited.

use super::verdict::{Rule, Verdict};
use crate::clock::{SECOND, nanos};
use crate::history::{History, Op};
use crate::plan::KEYS;

/// A time in which a key was free although a worker waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stall {
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// The part of it after the last fault that had begun before its end.
    pub(crate) quiet: u64,
}

/// Shorter times are the usual hand-off.
const LEAST: u64 = SECOND / 20;

pub(super) fn check(history: &History, verdict: &mut Verdict) {
    let limit = nanos(history.topology.longest_stall());
    for (key, stalls) in by_key(history) {
        for stall in stalls.iter().filter(|stall| stall.quiet > limit) {
            let (millis, start) = (stall.quiet / 1_000_000, stall.start);
            verdict.add(Rule::Stall, format!("{key}: {millis} ms, from {start}"));
        }
    }
}

/// All stalls of each key.
pub(crate) fn by_key(history: &History) -> Vec<(&'static str, Vec<Stall>)> {
    let stalls = |&key| (key, of_key(history, key));
    KEYS.iter().map(stalls).collect()
}

fn of_key(history: &History, key: &str) -> Vec<Stall> {
    // A request for several keys waits for one of them after the other, and it is unknown for which.
    let waits = |op: &&Op| op.key == key && !op.together;
    let ops: Vec<&Op> = history.ops.iter().filter(waits).collect();
    let mut stalls = Vec::new();
    let mut free = history.start;
    for (_, hold) in history
        .sections()
        .into_iter()
        .filter(|(op, _)| op.key == key)
    {
        if hold.entered > free + LEAST {
            stalls.extend(waited(history, &ops, free, hold.entered));
        }
        let left = hold.left.map_or(hold.until, |(at, _)| at);
        free = free.max(left);
    }
    stalls
}

/// The longest time that one waiter spent in this gap. A worker that was stopped or cut off in the meantime does not
/// count.
fn waited(history: &History, ops: &[&Op], start: u64, end: u64) -> Option<Stall> {
    let earliest = start.saturating_sub(2 * nanos(history.topology.wait()));
    let first = ops.partition_point(|op| op.wants < earliest);
    let wait = |op: &&&Op| {
        let from = op.wants.max(start);
        let to = op.served()?.min(end);
        (to > from && !history.hit(&op.worker, from, to)).then(|| (to - from, from, to))
    };
    let waits = ops[first..].iter().take_while(|op| op.wants < end);
    let (length, start, end) = waits.filter_map(|op| wait(&op)).max()?;
    let before = history.faults.iter().filter(|fault| fault.start < end);
    let last = before.map(|fault| fault.over).max().unwrap_or(0);
    let quiet = end.saturating_sub(last.max(start));
    (length > LEAST).then_some(Stall {
        start,
        length,
        quiet,
    })
}

impl Op {
    /// The end of its wait; `None` if its worker was killed before.
    fn served(&self) -> Option<u64> {
        let entered = self.hold.as_ref().map(|hold| hold.entered);
        entered.or(self.ended.as_ref().map(|(at, _)| *at))
    }
}

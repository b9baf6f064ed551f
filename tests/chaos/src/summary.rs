//! The run as a table, in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::args::Args;
use crate::check::stalls;
use crate::check::verdict::{Rule, Verdict};
use crate::clock::SECOND;
use crate::fault::{Kind, NOT_RUN};
use crate::history::{History, Hold, Op};
use crate::ledger::{Answer, Outcome, Reason};
use crate::plan::{TASKS, WORKERS, permits};
use crate::schedule;
use crate::topology::Topology;

/// The number of violations that are printed in full. Their consequences are often similar.
const SHOWN: usize = 40;

pub(crate) fn table(args: &Args, history: &History, verdict: &Verdict) -> String {
    let mut rows = vec![
        ("topology".to_owned(), topology(args)),
        ("seed".to_owned(), args.seed.to_string()),
        (
            "duration".to_owned(),
            format!("{} min of faults", args.minutes),
        ),
        (
            "workers".to_owned(),
            format!(
                "{WORKERS} processes at any time, {} in all, {TASKS} tasks each",
                history.workers.len()
            ),
        ),
    ];
    let sections = history.sections();
    let reentries: u64 = history.ops.iter().map(|op| op.reentries).sum();
    let answered = |answer| {
        history
            .writes
            .iter()
            .filter(|write| write.answer == answer)
            .count()
    };
    rows.push(("attempts".to_owned(), history.ops.len().to_string()));
    rows.push(("sections".to_owned(), sections.len().to_string()));
    let together = sections.iter().filter(|(op, _)| op.together).count();
    let is_permit = |op: &Op, hold: &Hold| permits(&op.key).is_some() && hold.shares;
    let permits = sections.iter().filter(|(op, hold)| is_permit(op, hold));
    rows.push((
        "sections whose request took other keys too".to_owned(),
        together.to_string(),
    ));
    rows.push((
        "sections with a permit".to_owned(),
        permits.count().to_string(),
    ));
    rows.push((
        "permits out at a time, at most".to_owned(),
        verdict.most_permits.to_string(),
    ));
    rows.push(("re-entries".to_owned(), reentries.to_string()));
    rows.push((
        "writes and reads accepted".to_owned(),
        answered(Answer::Accepted).to_string(),
    ));
    rows.push((
        "writes and reads rejected as stale".to_owned(),
        answered(Answer::Refused).to_string(),
    ));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, reason) in sections.iter().filter_map(|(_, hold)| hold.lost) {
        let how = match reason {
            Reason::Deleted => "deleted",
            Reason::Expired => "expired",
            Reason::MaxHold => "max_hold reached",
            Reason::Sibling => "with another key",
            Reason::Unknown => "other",
        };
        *counts.entry(format!("losses noticed: {how}")).or_default() += 1;
    }
    for op in &history.ops {
        let kind = match &op.ended {
            Some((_, Outcome::Unavailable)) => "unavailable",
            Some((_, Outcome::Timeout)) => "timeout",
            Some((_, Outcome::Busy)) => "busy",
            Some((_, Outcome::Deadlock)) => "deadlock",
            Some((_, Outcome::Unexpected(_))) => "unexpected",
            Some((_, Outcome::Done | Outcome::Lost(_) | Outcome::Dropped)) | None => continue,
        };
        *counts.entry(format!("errors: {kind}")).or_default() += 1;
    }
    rows.extend(
        counts
            .into_iter()
            .map(|(name, count)| (name, count.to_string())),
    );
    for (kind, count) in schedule::count(
        history.topology,
        history.faults.iter().map(|fault| fault.kind),
    ) {
        rows.push((format!("fault: {}", kind.name()), count.to_string()));
    }
    for what in NOT_RUN {
        rows.push(("not run".to_owned(), (*what).to_owned()));
    }
    rows.extend(stalled(history));
    let calm = history
        .calm
        .iter()
        .map(|(_, _, at)| *at)
        .max()
        .unwrap_or(history.healed);
    let calm = seconds(calm.saturating_sub(history.healed));
    rows.push((
        "every worker had every key after the last fault within".to_owned(),
        calm,
    ));
    rows.push((
        "meetings excused by lost data".to_owned(),
        verdict.excused.to_string(),
    ));
    if history.topology != Topology::Server {
        let failovers = history.faults.iter().filter(|it| it.kind.fails_over());
        rows.push((
            "of these by failovers alone".to_owned(),
            verdict.excused_by_failover.to_string(),
        ));
        rows.push(("failovers".to_owned(), failovers.count().to_string()));
        let unasked = history.faults.iter().filter(|it| it.kind == Kind::Unasked);
        rows.push((
            "failovers that no fault asked for".to_owned(),
            unasked.count().to_string(),
        ));
    }
    rows.push((
        "violations".to_owned(),
        verdict.violations.len().to_string(),
    ));
    let mut rules: BTreeMap<Rule, usize> = BTreeMap::new();
    for violation in &verdict.violations {
        *rules.entry(violation.rule).or_default() += 1;
    }
    for (rule, count) in rules {
        rows.push((format!("violation: {rule:?}"), count.to_string()));
    }

    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {name} | {value} |");
    }
    for violation in verdict.violations.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "\nVIOLATION (seed {}): {:?}: {}",
            args.seed, violation.rule, violation.what
        );
    }
    let left_out = verdict.violations.len().saturating_sub(SHOWN);
    if left_out > 0 {
        let _ = writeln!(text, "\n… and {left_out} more");
    }
    text
}

fn topology(args: &Args) -> String {
    let confirmed = if args.confirm {
        ", confirmed by all replicas"
    } else {
        ""
    };
    let topology = match args.topology {
        Topology::Server => "one server",
        Topology::Sentinel => "a primary with two replicas, and three sentinels",
        Topology::Cluster => "a cluster of three primaries with a replica each",
    };
    format!("{topology}{confirmed}")
}

/// The longest stall of each key, and the part of any stall without a fault.
fn stalled(history: &History) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut quiet = 0;
    for (key, stalls) in stalls::by_key(history) {
        quiet = stalls.iter().map(|stall| stall.quiet).fold(quiet, u64::max);
        if let Some(longest) = stalls.iter().max_by_key(|stall| stall.length) {
            let from = seconds(longest.start.saturating_sub(history.start));
            let value = format!("{}, from {from} on", seconds(longest.length));
            rows.push((format!("longest stall of {key}"), value));
        }
    }
    rows.push((
        "longest stall after the last fault before its end".to_owned(),
        seconds(quiet),
    ));
    rows
}

fn seconds(nanos: u64) -> String {
    format!("{:.2} s", nanos as f64 / SECOND as f64)
}

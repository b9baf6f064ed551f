//! The run as a table, in Markdown.

use std::collections::BTreeMap;

use crate::args::Args;
use crate::check::stalls;
use crate::check::verdict::Verdict;
use crate::clock::SECOND;
use crate::fault::Kind;
use crate::history::History;
use crate::ledger::Outcome;
use crate::plan::permits;
use crate::schedule;

/// The number of violations that are printed in full. Their consequences are often similar.
const SHOWN: usize = 40;

pub(crate) fn table(args: &Args, history: &History, verdict: &Verdict) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: &str| rows.push((name.to_owned(), value.to_owned()));
    let confirmed = if args.confirm { ", confirmed" } else { "" };
    row("topology", &format!("{:?}{confirmed}", args.topology));
    row("seed", &args.seed.to_string());
    row("minutes of faults", &args.minutes.to_string());
    let mut count = |name: &str, count: usize| row(name, &count.to_string());
    let sections = history.sections();
    count("workers", history.workers.len());
    count("attempts", history.ops.len());
    count("sections", sections.len());
    let together = sections.iter().filter(|(op, _)| op.together);
    count("sections of a request for several keys", together.count());
    let has_permit = sections.iter().filter(|(op, _)| permits(&op.key).is_some());
    count("sections of the semaphore", has_permit.count());
    let reentries: u64 = history.ops.iter().map(|op| op.reentries).sum();
    count("re-entries", usize::try_from(reentries).unwrap_or(0));
    let lost = sections.iter().filter_map(|(_, hold)| hold.lost);
    let mut kinds: Vec<_> = lost
        .map(|(_, reason)| format!("lost: {reason:?}"))
        .collect();
    let ended = history.ops.iter().filter_map(|op| op.ended.as_ref());
    kinds.extend(ended.map(|(_, outcome)| match outcome {
        Outcome::Unexpected(_) => "ended: Unexpected".to_owned(),
        outcome => format!("ended: {outcome:?}"),
    }));
    for (name, number) in counts(kinds) {
        count(&name, number);
    }
    let faults = || history.faults.iter().map(|fault| fault.kind);
    for (kind, number) in schedule::count(history.topology, faults()) {
        count(&format!("fault: {}", kind.name()), number);
    }
    count("failovers", faults().filter(|it| it.fails_over()).count());
    let unasked = faults().filter(|it| *it == Kind::Unasked);
    count("failovers that no fault asked for", unasked.count());
    count("meetings excused by lost data", verdict.excused);
    count("of these by failovers alone", verdict.excused_by_failover);
    count("violations", verdict.violations.len());
    let rules = verdict.violations.iter();
    for (name, number) in counts(rules.map(|it| format!("violation: {:?}", it.rule))) {
        count(&name, number);
    }
    let calm = history.calm.iter().map(|(_, _, at)| *at).max();
    let calm = calm.map_or(0, |at| at.saturating_sub(history.healed));
    row(
        "every worker had every key after the last fault within",
        &seconds(calm),
    );
    let stalls = stalls::by_key(history);
    let stalls = || stalls.iter().flat_map(|(_, stalls)| stalls);
    let longest = stalls().map(|stall| stall.length).max();
    row("longest stall", &seconds(longest.unwrap_or(0)));
    let quiet = stalls().map(|stall| stall.quiet).max();
    row(
        "longest stall after the last fault before its end",
        &seconds(quiet.unwrap_or(0)),
    );

    let rows = rows
        .iter()
        .map(|(name, value)| format!("| {name} | {value} |\n"));
    let seed = args.seed;
    let violations = verdict.violations.iter().take(SHOWN);
    let violations =
        violations.map(|it| format!("\nVIOLATION (seed {seed}): {:?}: {}\n", it.rule, it.what));
    let head = ["| | |\n|---|---|\n".to_owned()];
    head.into_iter().chain(rows).chain(violations).collect()
}

fn counts(names: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn seconds(nanos: u64) -> String {
    format!("{:.2} s", nanos as f64 / SECOND as f64)
}

//! Replaces values that differ in each run by the form that the page shows.

use std::collections::BTreeMap;

use regex::{Captures, Regex};

/// The rest of a lease, until all other times have been replaced.
const LEASE: &str = "9,8s";

/// Replaces the IDs, tokens, times and ports of a run by those of the page.
pub(super) fn form(text: &str) -> String {
    let id = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let text = each(text, id, |at| {
        format!("6b1f{at:04}-5d2c-4e8a-9f37-c04d1b7ae592")
    });
    // Microseconds since 1970.
    let text = each(&text, r"\b1[0-9]{15}\b", |at| {
        format!("17954013633{:05}", 14_611 * (at + 1) % 100_000)
    });
    let text = each(&text, r"127\.0\.0\.1:[0-9]{5}\b", |_| {
        "127.0.0.1:6379".to_owned()
    });
    let text = each(&text, r"pid [0-9]+ on [^\s,]+", |_| {
        "pid 4711 on worker-3".to_owned()
    });
    // The column with the process, and the spaces up to the next word.
    let text = each(&text, r"\bHOLDER +", |_| format!("{:18}", "HOLDER"));
    let text = each(&text, r"\bsh:[0-9]+@\S* +", |_| {
        format!("{:22}", "sh:4711@worker-3")
    });
    let text = each(&text, r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z", |_| {
        "2026-11-29T21:05:55Z".to_owned()
    });
    let text = each(&text, r"\b[0-9a-f]{8} ", |at| format!("6b1f{at:04} "));
    let spans = Regex::new(r"\bfor [0-9.]+m?s\b").expect("a pattern");
    let text = spans.replace_all(&text, "for 0.2s");
    let leases = Regex::new(r"lease    [0-9.]+m?s\b").expect("a pattern");
    let text = right(&leases.replace_all(&text, format!("lease    {LEASE}")));
    let clock = r"[0-9.]+[mu]?s (ahead of|behind) the local clock, give or take [0-9.]+[mu]?s";
    let text = each(&text, clock, |_| {
        "0.2ms ahead of the local clock, give or take 0.1ms".to_owned()
    });
    let text = each(&text, "(Redis|Valkey) [0-9]+\\.[0-9]+\\.[0-9]+", |_| {
        "Redis 7.0.15".to_owned()
    });
    let text = each(&text, r"\b[0-9]+\.[0-9]+(µs|ms|s)\b", |_| {
        "0.2s".to_owned()
    });
    // No time has a comma, so this one has not been replaced.
    text.replace(LEASE, "9.8s")
}

/// Replaces times in a column, which are aligned at its right edge.
fn right(text: &str) -> String {
    let pattern = Regex::new(r" {2,}([0-9]+ms|[0-9]+\.[0-9]s)\b").expect("a pattern");
    let lines = text.split_inclusive('\n').map(|line| {
        let has_lease = pattern.find_iter(line).count() == 2;
        let mut forms = if has_lease {
            [LEASE, "0.2s"]
        } else {
            ["0.2s"; 2]
        }
        .into_iter();
        let replaced = pattern.replace_all(line, |found: &Captures<'_>| {
            let form = forms.next().unwrap_or("0.2s");
            format!("{form:>width$}", width = found[0].len())
        });
        replaced.into_owned()
    });
    lines.collect()
}

/// Replaces each match: the first one, and all that are equal to it, by the form of 0, the next one by the form of 1.
fn each(text: &str, pattern: &str, form: impl Fn(usize) -> String) -> String {
    let mut known = BTreeMap::new();
    let pattern = Regex::new(pattern).expect("a pattern");
    let replaced = pattern.replace_all(text, |found: &Captures<'_>| {
        let next = known.len();
        form(*known.entry(found[0].to_owned()).or_insert(next))
    });
    replaced.into_owned()
}

//! Charts from the numbers that `--out` has written.
//!
//! A folder may contain several runs: a chart shows their median. Data that is missing in the files is left out.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use self::data::Data;
use self::style::{Chart, Scale};

mod bars;
mod data;
mod lines;
mod style;

/// Measure, metric, title, scale.
const CHARTS: &[(&str, &str, &str, Scale)] = &[
    (
        "uncontended",
        "median",
        "Lock and unlock, nobody else",
        Scale::Linear,
    ),
    (
        "uncontended",
        "server CPU",
        "CPU of the server, nobody else",
        Scale::Linear,
    ),
    (
        "throughput",
        "pairs",
        "Lock and unlock, a key for each task",
        Scale::Linear,
    ),
    ("drain", "time", "A queue of one process drains", Scale::Log),
    (
        "drain",
        "commands",
        "A queue of one process drains",
        Scale::Log,
    ),
    (
        "processes",
        "sections",
        "Several processes, empty sections",
        Scale::Linear,
    ),
    (
        "processes",
        "commands",
        "Several processes, empty sections",
        Scale::Linear,
    ),
    (
        "handoff",
        "median",
        "From release to entry in another process",
        Scale::Log,
    ),
    ("waiting", "commands", "Tasks that wait", Scale::Log),
    (
        "fairness",
        "fewest sections",
        "Tasks that want the lock all the time",
        Scale::Linear,
    ),
    (
        "fairness",
        "longest wait",
        "Tasks that want the lock all the time",
        Scale::Log,
    ),
    ("memory", "memory", "Memory of the client", Scale::Linear),
    ("idle", "commands", "An idle hold", Scale::Linear),
    (
        "subscriptions",
        "subscriptions",
        "Processes that wait for many keys",
        Scale::Linear,
    ),
];

pub(crate) fn run(from: &Path, to: &Path) -> Result<()> {
    let data = Data::read(from)?;
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for &(measure, metric, title, scale) in CHARTS {
        let settings = data.settings(measure, metric);
        if measure == "drain" && settings.len() > 1 {
            let path = to.join(slug(&[measure, metric]));
            let chart = Chart::new(title, metric, &data.unit(measure, metric), scale);
            lines::draw(&path, &chart, &settings, &data.series(measure, metric))?;
            println!("{}", path.display());
            continue;
        }
        for setting in &settings {
            let name = match settings.len() {
                1 => slug(&[measure, metric]),
                _ => slug(&[measure, metric, setting]),
            };
            let path = to.join(name);
            let title = format!("{title} ({setting})");
            let chart = Chart::new(&title, metric, &data.unit(measure, metric), scale);
            bars::draw(&path, &chart, scale, &data.values(measure, metric, setting))?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// "processes", "sections", "4 x 8": processes-sections-4x8.svg
fn slug(parts: &[&str]) -> String {
    let parts = parts
        .iter()
        .map(|part| part.replace(" x ", "x").replace(' ', "-"));
    format!("{}.svg", parts.collect::<Vec<_>>().join("-").to_lowercase())
}

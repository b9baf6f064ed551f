//! One run from its start to its verdict.

use std::fmt::Debug;
use std::path::Path;
use std::process::ExitCode;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::args::Args;
use crate::crew::{Crew, Plan, Remains};
use crate::fault::{Fault, LANES};
use crate::faults::Stage;
use crate::ground::Ground;
use crate::history::History;
use crate::plan::RESPONSE_TIMEOUT;
use crate::schedule::Deck;
use crate::sightings::Lookout;
use crate::support::dice::Dice;
use crate::topology::Topology;
use crate::{check, clock, summary};

/// The time for which a lock may exist after the last section: a lease, and a release that continues in the background.
const LEFTOVERS: Duration = Duration::from_secs(4);

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        args.minutes > 0.0 && args.minutes < 10_000.0,
        "so many minutes make no sense"
    );
    let has_replicas = args.topology.replicas() > 0;
    ensure!(
        has_replicas || !args.confirm,
        "one server has no replicas that could confirm: add `--topology sentinel` or `cluster`"
    );
    let folder = TempDir::with_prefix("reentry-chaos-")?;
    let ground = Ground::start(args.topology).await;
    let lookout = Lookout::start(ground.nodes())?;
    let mut dice = Dice(args.seed);
    let mut dice = || Dice(dice.roll(1 << 31));
    let plan = Plan {
        folder: folder.path().to_owned(),
        urls: ground.urls(),
        topology: args.topology,
        confirm: args.confirm,
    };
    let crew = Crew::start(plan, dice())?;
    let stage = Stage::new(ground, crew).await;

    let start = clock::now();
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let decks = LANES.map(|lane| Deck::new(lane, args.topology, dice()));
    let lanes = decks.map(|deck| lane(&stage, deck, end));
    let mut faults = futures_util::future::try_join_all(lanes).await?.concat();
    stage.ground.heal().await;
    if args.topology != Topology::Server {
        faults.extend(stage.unasked().await);
    }
    faults.sort_by_key(|fault| fault.start);
    let healed = clock::now();
    let (remains, leftovers) = finish(stage, args.topology).await?;
    let history = History {
        topology: args.topology,
        confirm: args.confirm,
        start,
        healed,
        faults,
        sightings: lookout.sightings(),
        leftovers,
        ..History::default()
    };
    let history = history.with(&remains)?;
    let verdict = check::all(&history);
    println!("{}", summary::table(args, &history, &verdict));
    if verdict.violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let folder = folder.keep();
    keep(&folder, "faults", &history.faults)?;
    keep(&folder, "sightings", &history.sightings)?;
    println!("the ledgers are in {}", folder.display());
    Ok(ExitCode::FAILURE)
}

fn keep<T: Debug>(folder: &Path, name: &str, all: &[T]) -> Result<()> {
    let lines: String = all.iter().map(|one| format!("{one:?}\n")).collect();
    Ok(std::fs::write(folder.join(name), lines)?)
}

/// Causes one fault of this lane after the other. Each is undone at the end.
async fn lane(stage: &Stage, mut deck: Deck, end: Instant) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    while deck.has_kinds() {
        let pause = deck.pause();
        if Instant::now() + pause > end {
            break;
        }
        sleep(pause).await;
        let kind = deck.draw();
        for fault in stage.strike(kind, &mut deck).await? {
            let left = (end - Instant::now()).as_secs_f64();
            eprintln!("{left:>8.1} s left  {} {}", fault.kind.name(), fault.note);
            faults.push(fault);
        }
    }
    Ok(faults)
}

/// The phase without faults: every worker has every key, all locks disappear, and then the workers end.
async fn finish(stage: Stage, topology: Topology) -> Result<(Vec<Remains>, Vec<String>)> {
    let mut crew = stage
        .crew
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    crew.calm().await?;
    let limit = Instant::now() + topology.longest_ttl() + RESPONSE_TIMEOUT + LEFTOVERS;
    let mut keys = stage.ground.leftovers().await?;
    while !keys.is_empty() && Instant::now() < limit {
        sleep(Duration::from_millis(20)).await;
        keys = stage.ground.leftovers().await?;
    }
    Ok((crew.end().await, keys))
}

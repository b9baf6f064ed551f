//! One run from its start to its verdict.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::args::Args;
use crate::check;
use crate::clock;
use crate::crew::{Crew, Remains};
use crate::fault::{Fault, LANES};
use crate::faults::Stage;
use crate::history::History;
use crate::plan::{MAX_TTL, RESPONSE_TIMEOUT, WORKERS};
use crate::resource::Resource;
use crate::schedule::Deck;
use crate::sightings::Lookout;
use crate::support::dice::Dice;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;
use crate::{plot, summary};

/// Without a fsync, but written before any answer: what was answered survives the server's process.
const DURABLE: [&str; 6] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--maxclients",
    "1000",
];

/// How long after the last section a lock may still stand: a lease, and a release that goes on in the
/// background.
const LEFTOVERS: Duration = Duration::from_secs(4);

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        args.minutes > 0.0 && args.minutes < 10_000.0,
        "so many minutes make no sense"
    );
    let folder = TempDir::with_prefix("reentry-chaos-")?;
    let ledgers = args
        .keep
        .clone()
        .unwrap_or_else(|| folder.path().to_owned());
    std::fs::create_dir_all(&ledgers)?;
    let empty = std::fs::read_dir(&ledgers)?.next().is_none();
    ensure!(empty, "{} is not empty", ledgers.display());
    let socket = folder.path().join("resource.sock");
    let resource = Resource::start(&socket)?;
    let server = RedisServer::start_with(&DURABLE).await;
    let way = |_| Proxy::start(server.port());
    let proxies: Vec<_> = (0..WORKERS).map(way).collect();
    let urls = proxies.iter().map(Proxy::url).collect();
    let lookout = Lookout::start(&server.dir().join("redis.sock"))?;
    let mut dice = Dice(args.seed);
    let mut dice = || Dice(dice.roll(1 << 31));
    let crew = Crew::start(ledgers, urls, socket, args.keep.is_some(), dice())?;
    let crew = Mutex::new(crew);
    let stage = Stage {
        server,
        proxies,
        crew,
    };

    let start = clock::now();
    let end = Instant::now() + Duration::from_secs_f64(args.minutes * 60.0);
    let decks = LANES.map(|lane| Deck::new(lane, args.only.as_deref(), dice()));
    let lanes = decks.map(|deck| lane(&stage, deck, end));
    let mut faults = futures_util::future::try_join_all(lanes).await?.concat();
    faults.sort_by_key(|fault| fault.start);
    for proxy in &stage.proxies {
        proxy.heal().await;
    }
    let healed = clock::now();
    let (remains, leftovers) = finish(stage).await?;
    let history = History {
        start,
        healed,
        faults,
        writes: resource.log(),
        sightings: lookout.sightings(),
        leftovers,
        ..History::default()
    };
    let history = history.with(&remains)?;
    if let Some(folder) = &args.keep {
        keep(folder, "faults", &history.faults)?;
        keep(folder, "writes", &history.writes)?;
        keep(folder, "sightings", &history.sightings)?;
    }
    let verdict = check::all(&history);
    println!("{}", summary::table(args, &history, &verdict));
    let path = match &args.plot {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("target/chaos/{}.svg", args.seed)),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    plot::draw(&path, args, &history)?;
    println!("\nTimeline: {}", path.display());
    Ok(if verdict.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn keep<T: Debug>(folder: &Path, name: &str, all: &[T]) -> Result<()> {
    let lines: String = all.iter().map(|one| format!("{one:?}\n")).collect();
    Ok(std::fs::write(folder.join(name), lines)?)
}

/// One fault of this lane after the other, each of them undone at the end.
async fn lane(stage: &Stage, mut deck: Deck, end: Instant) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    while !deck.is_empty() {
        let pause = deck.pause();
        if Instant::now() + pause > end {
            break;
        }
        sleep(pause).await;
        let kind = deck.draw();
        let fault = stage.strike(kind, &mut deck).await?;
        eprintln!(
            "{:>8.1} s left  {}",
            (end - Instant::now()).as_secs_f64(),
            kind.name()
        );
        faults.push(fault);
    }
    Ok(faults)
}

/// The phase without faults: every worker has every key, all locks go, and then the workers.
async fn finish(stage: Stage) -> Result<(Vec<Remains>, Vec<String>)> {
    let mut crew = stage
        .crew
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    crew.calm().await?;
    let limit = Instant::now() + MAX_TTL + RESPONSE_TIMEOUT + LEFTOVERS;
    let mut keys = leftovers(&stage.server).await?;
    while !keys.is_empty() && Instant::now() < limit {
        sleep(Duration::from_millis(20)).await;
        keys = leftovers(&stage.server).await?;
    }
    Ok((crew.end().await, keys))
}

/// The locks and the places in lines. Tombstones, and what processes that died have left in the entries, expire by
/// themselves.
async fn leftovers(server: &RedisServer) -> Result<Vec<String>> {
    let mut connection = server.connection().await;
    let mut left = Vec::new();
    for key in server.leftovers().await {
        let waits = deadpool_redis::redis::cmd("HVALS").arg(&key).to_owned();
        let is_entries = key.starts_with("reentry:entries:");
        let waits: Vec<String> = match is_entries {
            true => waits.query_async(&mut connection).await.context("HVALS")?,
            false => Vec::new(),
        };
        // "deadline hold lease", the deadline in µs.
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
        let is_live = |wait: &String| {
            let deadline = wait.split_once(' ').map(|(deadline, _)| deadline.parse());
            deadline.is_some_and(|deadline: Result<u128, _>| deadline.is_ok_and(|at| now < at))
        };
        if !is_entries || waits.iter().any(is_live) {
            left.push(key);
        }
    }
    Ok(left)
}

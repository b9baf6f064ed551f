//! What a server says of itself. Nothing is judged here, and nothing is changed there.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use reentry::__admin::{Reply, Role, Server};

/// How often its clock is read, which is also how its latency is measured.
const READINGS: usize = 20;

/// What one server has said. What it has refused is missing.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) address: String,
    pub(crate) role: Role,
    /// The sections of `INFO`, and of `CLUSTER INFO`, together.
    pub(crate) info: BTreeMap<String, String>,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) clock: Option<Clock>,
    /// What a sentinel says of the primary.
    pub(crate) watched: BTreeMap<String, String>,
    /// What a sentinel says of its quorum; an error if there is none.
    pub(crate) quorum: Option<Result<String, String>>,
    /// The lines of `CLUSTER NODES`.
    pub(crate) nodes: Option<String>,
}

/// The clock of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    /// How far it is ahead of ours, in microseconds, by the reading that took the shortest.
    pub(crate) ahead: i64,
    /// By how much that may be wrong.
    pub(crate) give_or_take: i64,
    /// Of half of the readings less.
    pub(crate) median: Duration,
    pub(crate) longest: Duration,
}

const SETTINGS: [&str; 6] = [
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "save",
    "appendfsync",
    "cluster-node-timeout",
];

impl Facts {
    /// Asks one server for everything.
    ///
    /// # Errors
    ///
    /// Why it does not answer.
    pub(crate) async fn of(server: &Server) -> Result<Self, String> {
        let mut facts = Self {
            address: server.address().to_owned(),
            role: server.role().clone(),
            info: BTreeMap::new(),
            config: BTreeMap::new(),
            clock: None,
            watched: BTreeMap::new(),
            quorum: None,
            nodes: None,
        };
        // The first command connects, so that no reading of the clock does.
        if let Reply::Text(info) = ask(server, &["INFO"]).await? {
            facts.info = pairs(&info);
        }
        facts.clock = clock(server).await?;
        if let Role::Sentinel(name) = server.role() {
            facts.watched = table(ask(server, &["SENTINEL", "MASTER", name]).await?);
            facts.quorum = match ask(server, &["SENTINEL", "CKQUORUM", name]).await? {
                Reply::Error(error) if error.starts_with("NOQUORUM") => Some(Err(error)),
                Reply::Text(text) => Some(Ok(text)),
                _ => None,
            };
            return Ok(facts);
        }
        for name in SETTINGS {
            let setting = ask(server, &["CONFIG", "GET", name]).await?;
            facts.config.extend(table(setting));
        }
        if facts.info("cluster_enabled") == Some("1") {
            if let Reply::Text(info) = ask(server, &["CLUSTER", "INFO"]).await? {
                facts.info.extend(pairs(&info));
            }
            if let Reply::Text(nodes) = ask(server, &["CLUSTER", "NODES"]).await? {
                facts.nodes = Some(nodes);
            }
        }
        Ok(facts)
    }

    pub(crate) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }

    pub(crate) fn watched_number(&self, name: &str) -> Option<u64> {
        self.watched.get(name)?.parse().ok()
    }

    /// What it says that it does, which may be something else than what it is known for.
    pub(crate) fn is_replica(&self) -> bool {
        self.info("role") == Some("slave")
    }
}

/// What a server answers; an error where it does not.
pub(crate) async fn ask(server: &Server, words: &[&str]) -> Result<Reply, String> {
    let answer = server.command(words).await;
    answer.map_err(|error| format!("{:#}", anyhow::Error::new(error)))
}

async fn clock(server: &Server) -> Result<Option<Clock>, String> {
    let mut readings = Vec::with_capacity(READINGS);
    for _ in 0..READINGS {
        let (begun, before) = (Instant::now(), SystemTime::now());
        let time = ask(server, &["TIME"]).await?;
        let took = begun.elapsed();
        let Some(theirs) = micros(&time) else {
            return Ok(None);
        };
        let middle = before + took / 2;
        let ours = middle.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ours = i64::try_from(ours.as_micros()).unwrap_or(i64::MAX);
        readings.push((took, theirs - ours));
    }
    readings.sort_unstable();
    let (Some(&(shortest, ahead)), Some(&(longest, _))) = (readings.first(), readings.last())
    else {
        return Ok(None);
    };
    let median = readings
        .get(READINGS / 2)
        .map_or(longest, |(took, _)| *took);
    Ok(Some(Clock {
        ahead,
        give_or_take: i64::try_from(shortest.as_micros() / 2).unwrap_or(i64::MAX),
        median,
        longest,
    }))
}

fn micros(time: &Reply) -> Option<i64> {
    let Reply::List(parts) = time else {
        return None;
    };
    let [Reply::Text(seconds), Reply::Text(micros)] = &parts[..] else {
        return None;
    };
    let (seconds, micros): (i64, i64) = (seconds.parse().ok()?, micros.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// `name:value`, line by line.
fn pairs(info: &str) -> BTreeMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// Names and values in turn; nothing of what was refused.
fn table(reply: Reply) -> BTreeMap<String, String> {
    let Reply::List(words) = reply else {
        return BTreeMap::new();
    };
    let pairs = words.chunks_exact(2).filter_map(|pair| match pair {
        [Reply::Text(name), Reply::Text(value)] => Some((name.clone(), value.clone())),
        _ => None,
    });
    pairs.collect()
}

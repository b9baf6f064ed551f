//! The facts that a server reports. This file judges nothing and changes nothing on the server.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::FromRedisValue;

use crate::servers::{Answer, Fields, Role, Server, fields};

/// The number of times that the clock of a server is read. These reads also measure its latency.
const READINGS: usize = 20;

/// The responses of one server. The commands that it rejected have none.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) address: String,
    pub(crate) role: Role,
    /// The sections of `INFO` and of `CLUSTER INFO`, together.
    pub(crate) info: Fields,
    pub(crate) config: Fields,
    pub(crate) clock: Option<Clock>,
    /// The fields of a sentinel for the primary.
    pub(crate) watched: Fields,
    /// The response of a sentinel about its quorum; an error if there is no quorum.
    pub(crate) quorum: Option<Result<String, String>>,
    /// The lines of `CLUSTER NODES`.
    pub(crate) nodes: Option<String>,
}

/// The clock of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    /// The offset from the local clock, in microseconds, from the fastest read.
    pub(crate) ahead: i64,
    /// The possible error of the offset.
    pub(crate) give_or_take: i64,
    /// The median: half of the reads took less.
    pub(crate) median: Duration,
    pub(crate) longest: Duration,
}

const SETTINGS: [&str; 7] = [
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "save",
    "stop-writes-on-bgsave-error",
    "appendfsync",
    "cluster-node-timeout",
];

impl Facts {
    /// Asks one server for all facts.
    ///
    /// # Errors
    ///
    /// The reason why the server does not respond.
    pub(crate) async fn of(server: &Server) -> Result<Self, String> {
        let mut facts = Self {
            address: server.address().to_owned(),
            role: server.role().clone(),
            info: Fields::new(),
            config: Fields::new(),
            clock: None,
            watched: Fields::new(),
            quorum: None,
            nodes: None,
        };
        // No read of the clock includes the time to connect, because there is a connection already.
        if let Ok(info) = ask::<String>(server, &["INFO"]).await? {
            facts.info = fields(info.lines(), ':');
        }
        facts.clock = clock(server).await?;
        if let Role::Sentinel(name) = server.role() {
            let watched = ask(server, &["SENTINEL", "MASTER", name]).await?;
            facts.watched = watched.unwrap_or_default();
            let quorum: Answer<String> = ask(server, &["SENTINEL", "CKQUORUM", name]).await?;
            let tells = |error: &String| error.starts_with("NOQUORUM");
            facts.quorum = Some(quorum).filter(|it| it.as_ref().err().is_none_or(tells));
            return Ok(facts);
        }
        for name in SETTINGS {
            let setting: Answer<Fields> = ask(server, &["CONFIG", "GET", name]).await?;
            facts.config.extend(setting.unwrap_or_default());
        }
        if facts.info("cluster_enabled") == Some("1") {
            if let Ok(info) = ask::<String>(server, &["CLUSTER", "INFO"]).await? {
                facts.info.extend(fields(info.lines(), ':'));
            }
            facts.nodes = ask(server, &["CLUSTER", "NODES"]).await?.ok();
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

    /// Whether the server says that it is a replica. Other servers may say something else.
    pub(crate) fn is_replica(&self) -> bool {
        self.info("role") == Some("slave")
    }
}

/// The response of a server; an error if there is none.
pub(crate) async fn ask<T: FromRedisValue>(
    server: &Server,
    words: &[&str],
) -> Result<Answer<T>, String> {
    let answer = server.ask(words).await;
    answer.map_err(|error| format!("{error:#}"))
}

async fn clock(server: &Server) -> Result<Option<Clock>, String> {
    let mut readings = Vec::with_capacity(READINGS);
    for _ in 0..READINGS {
        let (begun, before) = (Instant::now(), SystemTime::now());
        let time = ask::<(i64, i64)>(server, &["TIME"]).await?;
        let took = begun.elapsed();
        let Ok((seconds, micros)) = time else {
            return Ok(None);
        };
        let theirs = seconds.saturating_mul(1_000_000).saturating_add(micros);
        let middle = before + took / 2;
        let ours = middle.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ours = i64::try_from(ours.as_micros()).unwrap_or(i64::MAX);
        readings.push((took, theirs.saturating_sub(ours)));
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

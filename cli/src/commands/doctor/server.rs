//! What is right and wrong with one server.

use std::time::Duration;

use super::facts::Facts;
use super::finding::Finding;
use crate::servers::Role;
use crate::text::count;
use crate::view::short;

/// The median latency from which a caller notices it: a lock and its release are two requests.
const SLOW: Duration = Duration::from_millis(20);

/// All checks that need only one server.
pub(crate) fn of_server(
    facts: &Facts,
    is_of_cluster: bool,
    response_timeout: Duration,
) -> Vec<Finding> {
    let checks = [
        version(facts),
        address(facts, is_of_cluster),
        memory(facts),
        persistence(facts),
        disk(facts),
        replication(facts),
        clock(facts),
        latency(facts, response_timeout),
    ];
    checks.into_iter().flatten().collect()
}

fn version(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "version";
    if let Some(version) = facts.info("valkey_version") {
        return Some(Finding::ok(CHECK, format!("Valkey {version}")));
    }
    let version = facts.info("redis_version")?;
    let mut parts = version
        .split('.')
        .map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (parts.next()?, parts.next().unwrap_or_default());
    let name = format!("Redis {version}");
    Some(match (major, minor) {
        (..=5, _) | (6, ..=1) => Finding::fail(
            CHECK,
            format!("{name}: the scripts of the crate need commands that were added in 6.2"),
            "use Redis 6.2 or later, or Valkey",
        ),
        (6, _) => Finding::ok(
            CHECK,
            format!("{name}; before 7.0, SHUTDOWN does not wait for the replicas"),
        ),
        _ => Finding::ok(CHECK, name),
    })
}

/// Whether the server has all locks that are requested from it.
fn address(facts: &Facts, is_of_cluster: bool) -> Option<Finding> {
    const CHECK: &str = "address";
    let has_others = facts.info("cluster_enabled") == Some("1")
        && facts.role == Role::Primary
        && facts.number("cluster_size") != Some(1);
    (has_others && !is_of_cluster).then(|| {
        Finding::fail(
            CHECK,
            "it is one server of a cluster, and rejects requests for the locks of other servers",
            "use redis+cluster://",
        )
    })
}

fn memory(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "memory";
    let policy = facts
        .info("maxmemory_policy")
        .or(facts.setting("maxmemory-policy"))?;
    let most = facts.number("maxmemory").unwrap_or_default();
    let used = facts.number("used_memory").unwrap_or_default();
    let advice = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file";
    Some(match (policy, most) {
        ("noeviction", 1..) if used / 10 >= most / 11 => Finding::warn(
            CHECK,
            format!(
                "{} % of maxmemory is used: when memory is full, no lock can be acquired",
                percent(used, most)
            ),
            "give it more memory, or store less data",
        ),
        ("noeviction", _) => Finding::ok(CHECK, "maxmemory-policy noeviction"),
        (_, 0) => Finding::warn(
            CHECK,
            format!(
                "maxmemory-policy {policy}: maxmemory is not set; if it is set later, the server can evict locks that are held"
            ),
            advice,
        ),
        _ => Finding::fail(
            CHECK,
            format!(
                "maxmemory-policy {policy}: when memory is full, the server evicts locks that are held, because they have an expiry"
            ),
            advice,
        ),
    })
}

fn percent(used: u64, most: u64) -> u64 {
    used.saturating_mul(100)
        .checked_div(most)
        .unwrap_or_default()
}

fn persistence(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "persistence";
    let is_aof = facts.info("aof_enabled")? == "1";
    let saves = facts.setting("save");
    if is_aof {
        let sync = facts.setting("appendfsync").unwrap_or("as configured");
        return Some(Finding::ok(
            CHECK,
            format!("append-only file, appendfsync {sync}"),
        ));
    }
    Some(match saves {
        None => Finding::ok(
            CHECK,
            "no append-only file; the server does not report whether it saves snapshots",
        ),
        Some("") => Finding::warn(
            CHECK,
            "none: a restart loses all locks. Their holders learn of it immediately, and tokens continue to grow",
            "set appendonly yes to keep them at a restart, or leave it if a rare second holder is harmless",
        ),
        Some(_) => Finding::warn(
            CHECK,
            "only snapshots: a restart restores the locks as they were minutes ago",
            "set appendonly yes, or disable snapshots (save \"\")",
        ),
    })
}

/// Whether the server rejects all writes, because it could not write to its disk.
fn disk(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "disk";
    let has_failed = |name| facts.info(name) == Some("err");
    let stops = facts.setting("stop-writes-on-bgsave-error") != Some("no")
        && facts.setting("save").is_none_or(|save| !save.is_empty());
    let what = if facts.info("aof_enabled") == Some("1") && has_failed("aof_last_write_status") {
        "the append-only file could not be written"
    } else if stops && has_failed("rdb_last_bgsave_status") {
        "the last snapshot failed, and stop-writes-on-bgsave-error is yes"
    } else {
        return None;
    };
    Some(Finding::warn(
        CHECK,
        format!(
            "{what}: the server rejects all writes, so no lock can be acquired, and locks that are held are lost when their leases expire"
        ),
        "make room on its disk, check its log, and then BGSAVE",
    ))
}

fn replication(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "replication";
    if facts.is_replica() {
        return Some(match facts.info("master_link_status") {
            Some("up") => Finding::ok(CHECK, "in sync with its primary"),
            _ => Finding::fail(
                CHECK,
                "the connection to its primary is down: if it is promoted, its locks are out of date",
                "check its log, and the network between them",
            ),
        });
    }
    let number = facts.number("connected_slaves")?;
    let replicas = count(number, "replica");
    let needed = facts.setting("min-replicas-to-write");
    let needed = needed.and_then(|it| it.parse::<u64>().ok());
    Some(match (number, needed) {
        (0, None | Some(0)) => Finding::ok(CHECK, "no replicas"),
        (1.., Some(0)) => Finding::warn(
            CHECK,
            format!(
                "{replicas}, and min-replicas-to-write 0: a primary that is cut off from them continues to grant locks"
            ),
            "set min-replicas-to-write 1 and min-replicas-max-lag 10",
        ),
        (_, Some(needed)) => {
            let lag = facts.setting("min-replicas-max-lag").unwrap_or("?");
            Finding::ok(
                CHECK,
                format!("{replicas}, min-replicas-to-write {needed}, min-replicas-max-lag {lag}"),
            )
        }
        (_, None) => Finding::ok(
            CHECK,
            format!("{replicas}; the server does not report its min-replicas-to-write"),
        ),
    })
}

/// Compares its clock with the local one. Differences between servers matter more: see `together`.
fn clock(facts: &Facts) -> Option<Finding> {
    const CHECK: &str = "clock";
    let clock = facts.clock?;
    let differs = clock
        .ahead
        .unsigned_abs()
        .saturating_sub(clock.give_or_take.unsigned_abs());
    let what = format!(
        "{} {} the local clock, give or take {}",
        short_micros(clock.ahead.unsigned_abs()),
        if clock.ahead < 0 {
            "behind"
        } else {
            "ahead of"
        },
        short_micros(clock.give_or_take.unsigned_abs())
    );
    Some(if differs > 1_000_000 {
        Finding::warn(
            CHECK,
            format!(
                "{what}: tokens are derived from its clock, and one of the two clocks may soon be set"
            ),
            "run NTP on both machines",
        )
    } else {
        Finding::ok(CHECK, what)
    })
}

pub(crate) fn short_micros(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..1_000_000 => format!("{}.{}ms", micros / 1_000, micros % 1_000 / 100),
        _ => short(micros / 1_000),
    }
}

fn latency(facts: &Facts, response_timeout: Duration) -> Option<Finding> {
    const CHECK: &str = "latency";
    let clock = facts.clock?;
    let micros = |span: Duration| short_micros(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
    let what = format!(
        "median {}, longest {} of 20 requests",
        micros(clock.median),
        micros(clock.longest)
    );
    Some(if clock.longest > response_timeout / 2 {
        Finding::warn(
            CHECK,
            format!("{what}: after {response_timeout:?} a request counts as failed"),
            "look for slow commands (SLOWLOG GET), or set a longer response timeout",
        )
    } else if clock.median > SLOW {
        Finding::warn(
            CHECK,
            format!("{what}: the acquisition and the release of a lock take two of them"),
            "run the program closer to the server",
        )
    } else {
        Finding::ok(CHECK, what)
    })
}

//! What is right and wrong with several servers together.

use std::collections::BTreeSet;
use std::time::Duration;

use super::facts::Facts;
use super::finding::Finding;
use super::server::short_micros;
use crate::servers::Role;
use crate::text::count;

/// The factor by which a lease must be longer than a failover, to outlast it safely.
const TIMES: u32 = 3;

/// The time that a failover needs after the silence that starts it: votes, promotion, new connections.
const LINES_AROUND_ROWS: Duration = Duration::from_secs(2);

const SLOTS: u64 = 16_384;

pub(crate) fn of_all(facts: &[Facts], ttl: Duration) -> Vec<Finding> {
    let of_servers = clocks(facts).into_iter();
    of_servers
        .chain(sentinels(facts, ttl))
        .chain(cluster(facts, ttl))
        .collect()
}

/// The servers that may hold one lock after each other, or receive its requests after each other.
fn clocks(facts: &[Facts]) -> Option<Finding> {
    const CHECK: &str = "clocks";
    let servers = facts
        .iter()
        .filter(|it| !matches!(it.role, Role::Sentinel(_)));
    let clocks: Vec<_> = servers.filter_map(|it| it.clock).collect();
    let first = clocks.iter().min_by_key(|it| it.ahead)?;
    let last = clocks.iter().max_by_key(|it| it.ahead)?;
    if clocks.len() < 2 {
        return None;
    }
    let differ = last.ahead.saturating_sub(first.ahead);
    let unsure = first.give_or_take.saturating_add(last.give_or_take);
    let surely = differ.saturating_sub(unsure).unsigned_abs();
    let what = format!(
        "they differ by {}, give or take {}",
        short_micros(differ.unsigned_abs()),
        short_micros(unsure.unsigned_abs())
    );
    Some(match surely {
        _ if differ <= unsure => Finding::ok(CHECK, what),
        1_000_000.. => Finding::fail(
            CHECK,
            format!(
                "{what}: after a failover, leases expire at the wrong time, and tokens may not grow"
            ),
            "run NTP on all of them",
        ),
        100_000.. => Finding::warn(
            CHECK,
            format!("{what}: after a failover, leases expire earlier or later by this difference"),
            "run NTP on all of them",
        ),
        _ => Finding::ok(CHECK, what),
    })
}

fn sentinels(facts: &[Facts], ttl: Duration) -> Vec<Finding> {
    const CHECK: &str = "sentinels";
    let sentinels: Vec<_> = facts
        .iter()
        .filter(|it| matches!(it.role, Role::Sentinel(_)))
        .collect();
    let watching: Vec<_> = sentinels
        .iter()
        .filter(|it| !it.watched.is_empty())
        .collect();
    if watching.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let known = watching
        .iter()
        .filter_map(|it| it.watched_number("num-other-sentinels"));
    let known = known
        .max()
        .map_or(sentinels.len() as u64, |others| others + 1);
    let quorum = watching
        .iter()
        .filter_map(|it| it.watched_number("quorum"))
        .max();
    let quorum = quorum.unwrap_or_default();
    let what = format!("{}, quorum {quorum}", count(known, "sentinel"));
    let without = watching.iter().find_map(|it| match &it.quorum {
        Some(Err(error)) => Some(error),
        _ => None,
    });
    findings.push(match without {
        Some(error) => Finding::fail(
            CHECK,
            format!("{what}: {error}"),
            "start the missing sentinels, or lower the quorum",
        ),
        None if known < 3 => Finding::warn(
            CHECK,
            format!("{what}: if any one of them fails, no failover is possible"),
            "run three of them, on separate machines",
        ),
        None if quorum > known / 2 + 1 => Finding::warn(
            CHECK,
            format!("{what}: more of them must agree than a failover needs votes"),
            format!("SENTINEL SET … quorum {}", known / 2 + 1),
        ),
        None => Finding::ok(CHECK, what),
    });
    let named = |it: &&&Facts| {
        Some((
            it.watched.get("ip")?.clone(),
            it.watched.get("port")?.clone(),
        ))
    };
    let named: BTreeSet<_> = watching.iter().filter_map(named).collect();
    if named.len() > 1 {
        let places: Vec<_> = named
            .iter()
            .map(|(host, port)| format!("{host}:{port}"))
            .collect();
        findings.push(Finding::fail(
            CHECK,
            format!("they name different primaries: {}", places.join(" and ")),
            "wait if a failover is in progress; otherwise check the network between them",
        ));
    }
    let after = watching
        .iter()
        .filter_map(|it| it.watched_number("down-after-milliseconds"));
    if let Some(after) = after.max() {
        let name = format!("down-after-milliseconds {after}");
        findings.push(lease(&name, Duration::from_millis(after), ttl));
    }
    let replicas = watching
        .iter()
        .filter_map(|it| it.watched_number("num-slaves"))
        .max();
    if replicas == Some(0) {
        findings.push(Finding::fail(
            CHECK,
            "they know of no replica: there is nothing to fail over to",
            "add a replica to the primary, or two if replicas must confirm locks",
        ));
    }
    findings
}

/// Whether leases outlast a failover that begins after this silence.
fn lease(name: &str, silence: Duration, ttl: Duration) -> Finding {
    const CHECK: &str = "failover";
    let failover = silence.saturating_add(LINES_AROUND_ROWS);
    let least = failover.saturating_mul(TIMES);
    if ttl < least {
        Finding::warn(
            CHECK,
            format!(
                "{name}: a failover takes about {failover:?}, and a lease of {ttl:?} may expire during it"
            ),
            format!("use a TTL of at least {least:?}, or decrease this setting"),
        )
    } else {
        Finding::ok(
            CHECK,
            format!("{name}: a failover takes about {failover:?}, a lease lasts {ttl:?}"),
        )
    }
}

fn cluster(facts: &[Facts], ttl: Duration) -> Vec<Finding> {
    const CHECK: &str = "cluster";
    let members: Vec<_> = facts
        .iter()
        .filter(|it| it.info("cluster_state").is_some())
        .collect();
    if members.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let down = members
        .iter()
        .find(|it| it.info("cluster_state") != Some("ok"));
    let least = |name: &str| members.iter().filter_map(|it| it.number(name)).min();
    let covered = least("cluster_slots_ok").unwrap_or_default();
    findings.push(match down {
        Some(server) => Finding::fail(
            CHECK,
            format!(
                "{} reports that the cluster is down, {covered} of {SLOTS} slots are covered",
                server.address
            ),
            "start the missing servers, or promote their replicas (CLUSTER FAILOVER)",
        ),
        None if covered < SLOTS => Finding::fail(
            CHECK,
            format!(
                "{covered} of {SLOTS} slots are covered: locks in the others cannot be acquired"
            ),
            "run redis-cli --cluster fix",
        ),
        None => Finding::ok(CHECK, format!("all {SLOTS} slots are covered")),
    });
    let primaries: Vec<_> = members
        .iter()
        .filter(|it| it.role == Role::Primary)
        .collect();
    let alone: Vec<_> = primaries
        .iter()
        .filter(|it| it.number("connected_slaves") == Some(0))
        .collect();
    if !alone.is_empty() {
        let names: Vec<_> = alone.iter().map(|it| it.address.as_str()).collect();
        findings.push(Finding::warn(
            CHECK,
            format!(
                "no replica of {}: if it fails, its slots are unavailable until it returns",
                names.join(", ")
            ),
            "add a replica for each primary",
        ));
    }
    if primaries.len() < 3 {
        findings.push(Finding::warn(
            CHECK,
            format!(
                "{}: if any one of them fails, no failover is possible",
                match primaries.len() {
                    1 => "1 primary".to_owned(),
                    several => format!("{several} primaries"),
                }
            ),
            "use at least three primaries",
        ));
    }
    // `[slot->-node]` and `[slot-<-node]`.
    let moving = members.iter().filter_map(|it| it.nodes.as_ref());
    let is_open = |nodes: &&String| nodes.contains("->-") || nodes.contains("-<-");
    if moving.into_iter().any(|nodes| is_open(&nodes)) {
        findings.push(Finding::warn(
            CHECK,
            "a slot is being moved in steps: until it has moved, its locks can be renewed, but neither acquired nor released",
            "let the move finish; Valkey 9 can move slots in a single step (CLUSTER MIGRATESLOTS)",
        ));
    }
    let silence = members
        .iter()
        .filter_map(|it| it.setting("cluster-node-timeout")?.parse().ok());
    if let Some(millis) = silence.max() {
        let name = format!("cluster-node-timeout {millis}");
        // The node is silent for this time, and then a majority must notice it.
        findings.push(lease(
            &name,
            Duration::from_millis(millis).saturating_mul(2),
            ttl,
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::facts::Clock;
    use crate::commands::doctor::finding::Level;

    fn facts(role: Role, ahead: i64) -> Facts {
        Facts {
            address: "host:1".to_owned(),
            role,
            info: Default::default(),
            config: Default::default(),
            clock: Some(Clock {
                ahead,
                give_or_take: 500,
                median: Duration::from_micros(200),
                longest: Duration::from_millis(1),
            }),
            watched: Default::default(),
            quorum: None,
            nodes: None,
        }
    }

    fn sentinel(entries: &[(&str, &str)]) -> Facts {
        let watched = entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Facts {
            watched: watched.collect(),
            ..facts(Role::Sentinel("main".to_owned()), 0)
        }
    }

    fn levels(findings: &[Finding]) -> Vec<(&str, Level)> {
        findings.iter().map(|it| (it.check, it.level)).collect()
    }

    const TTL: Duration = Duration::from_secs(30);

    #[test]
    fn clocks_are_compared_as_far_as_they_can_be_read() {
        for (ahead, level) in [
            (900, Level::Ok),
            (50_000, Level::Ok),
            (200_000, Level::Warn),
            (-3_000_000, Level::Fail),
        ] {
            let both = [facts(Role::Primary, 0), facts(Role::Replica, ahead)];
            assert_eq!(levels(&of_all(&both, TTL)), [("clocks", level)], "{ahead}");
        }
        assert_eq!(of_all(&[facts(Role::Primary, 9)], TTL), []);
    }

    #[test]
    fn sentinels_are_three_and_a_failover_fits_into_the_lease() {
        let well = [
            ("ip", "10.0.0.1"),
            ("port", "6379"),
            ("num-other-sentinels", "2"),
            ("quorum", "2"),
            ("down-after-milliseconds", "1000"),
            ("num-slaves", "2"),
        ];
        let set = |entries: &[(&str, &str)]| {
            let all: Vec<_> = well.into_iter().chain(entries.iter().copied()).collect();
            of_all(&[sentinel(&all), sentinel(&all)], TTL)
        };
        assert_eq!(
            levels(&set(&[])),
            [("sentinels", Level::Ok), ("failover", Level::Ok)]
        );
        assert_eq!(
            levels(&set(&[("num-other-sentinels", "1")]))[0].1,
            Level::Warn
        );
        assert_eq!(levels(&set(&[("quorum", "3")]))[0].1, Level::Warn);
        assert_eq!(
            levels(&set(&[("down-after-milliseconds", "30000")]))[1].1,
            Level::Warn
        );
        assert_eq!(levels(&set(&[("num-slaves", "0")]))[2].1, Level::Fail);
        let different = [
            sentinel(&well),
            sentinel(&[("ip", "10.0.0.2"), ("port", "6379")]),
        ];
        assert!(levels(&of_all(&different, TTL)).contains(&("sentinels", Level::Fail)));
    }
}

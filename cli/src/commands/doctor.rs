//! `reentry doctor`: whether the servers match the recommendations of the documentation.
//!
//! | file | what it is |
//! |---|---|
//! | `facts` | the facts that a server reports |
//! | `server` | what is right and wrong with one server |
//! | `together` | what is right and wrong with several servers together |
//! | `trial` | a lock that is acquired, handed off and released |
//! | `rights` | the other permissions of the user |
//! | `finding` | the findings, and how they are printed |

mod facts;
mod finding;
mod rights;
mod server;
mod together;
mod trial;

use std::time::Duration;

use self::facts::Facts;
use self::finding::{Finding, Level, Report, Section};
use self::trial::Trial;
use crate::args::{Global, duration};
use crate::exit::Exit;
use crate::inspector::Inspector;
use crate::servers::{self, Role, Server};
use crate::{connect, output};

/// Check whether the servers are suitable for locks
///
/// Each server is checked: version, memory, persistence, replication, clock, latency, and the permissions of
/// the user. All servers are also checked together: the differences between their clocks, sentinels, and slots.
///
/// At each primary, a lock is acquired, entered twice, renewed, handed off to another process and released. It is the
/// lock named by --key, or one named `reentry-doctor:` and a number. The exit code is 1 if something is wrong, and with
/// --strict also if there is a warning.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// TTL of the locks, which must outlast a failover
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    ttl: Duration,
    /// Key of a lock that the user needs; this lock is tried
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Fail also if there is a warning
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    // Its errors say more about a connection than those of the locks.
    let servers = servers::all(global).await?;
    let locks = connect::locks(global).await?;
    let trial = Trial {
        inspector: Inspector::new(locks.clone(), global).await?,
        locks,
        other: connect::locks(global).await?,
        prefix: global.prefix.clone(),
        named: args.key,
    };
    let mut sections = Vec::new();
    let mut known = Vec::new();
    for server in &servers {
        let (section, facts) = examine(server, &trial, global).await;
        sections.push(section);
        known.extend(facts);
    }
    let together = together::of_all(&known, args.ttl);
    if !together.is_empty() {
        sections.push(Section {
            at: "all servers".to_owned(),
            role: None,
            findings: together,
        });
    }
    for locks in [&trial.locks, &trial.other] {
        // A failed trial may have left keys.
        locks.close(global.response_timeout).await;
    }
    let report = Report::new(sections);
    output::print(global, &report)?;
    Ok(match report.worst {
        Level::Fail => Exit::No,
        Level::Warn if args.strict => Exit::No,
        Level::Warn | Level::Ok => Exit::Success,
    })
}

/// The findings at one server.
async fn examine(server: &Server, trial: &Trial, global: &Global) -> (Section, Option<Facts>) {
    let mut section = Section {
        at: server.address().to_owned(),
        role: Some(match server.role() {
            Role::Primary => "primary",
            Role::Replica => "replica",
            Role::Sentinel(_) => "sentinel",
        }),
        findings: Vec::new(),
    };
    let facts = match Facts::of(server).await {
        Ok(facts) => facts,
        Err(error) => {
            section.findings.push(away(server, &error));
            return (section, None);
        }
    };
    let is_of_cluster = global.url.with_secrets().contains("+cluster://");
    let mut findings = server::of_server(&facts, is_of_cluster, global.response_timeout);
    match of_user(server, trial).await {
        Ok(of_user) => findings.extend(of_user),
        Err(error) => findings.push(away(server, &error)),
    }
    section.findings = findings;
    (section, Some(facts))
}

/// The findings that matter to a user of locks. Locks are at primaries.
async fn of_user(server: &Server, trial: &Trial) -> Result<Vec<Finding>, String> {
    let mut findings = match server.role() {
        Role::Primary => trial.at(server).await?,
        Role::Replica => Vec::new(),
        Role::Sentinel(_) => return Ok(Vec::new()),
    };
    findings.extend(rights::check(server).await?);
    Ok(findings)
}

fn away(server: &Server, error: &str) -> Finding {
    const CHECK: &str = "connection";
    match server.role() {
        Role::Primary => {
            Finding::fail(CHECK, error, "start it, or check the network and the login")
        }
        _ => Finding::warn(
            CHECK,
            format!("{error}; other servers name this one"),
            "start it, or check whether it can be reached from here at this address",
        ),
    }
}

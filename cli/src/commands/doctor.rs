//! `reentry doctor`: whether the servers are such as the documentation recommends.
//!
//! | file | what it is |
//! |---|---|
//! | `facts` | what a server says of itself |
//! | `server` | what is right and wrong with one server |
//! | `together` | the same with several of them |
//! | `asked` | the lock that the user is asked about |
//! | `acl` | what the user may do |
//! | `trial` | the same by a lock, where the user may not ask |
//! | `finding` | what was found, and how it is printed |

mod acl;
mod asked;
mod facts;
mod finding;
mod server;
mod together;
mod trial;

use std::time::Duration;

use reentry::{
    __admin::{Role, Server},
    Locks,
};

use self::{
    acl::Checked,
    asked::Asked,
    facts::Facts,
    finding::{Finding, Level, Report, Section},
};
use crate::{
    args::{Global, duration},
    connect,
    exit::Exit,
    output,
};

/// Check whether the servers are fit for locks
///
/// Each server is asked: version, memory, persistence, replication, clock, latency, what the user may do; and all of
/// them together: clocks against each other, sentinels, slots. Nothing is changed there, but where the user may not ask
/// for its rights a lock is taken for a moment: that of --key, or one named `reentry-doctor:` and a number. The exit code
/// is 1 if something is wrong, and with --strict also if something is to be looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The TTL of the locks, which is to outlast a failover
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    ttl: Duration,
    /// The key of a lock that the user needs: whether it may take this one is asked for
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Fail also if something is to be looked at
    #[arg(long)]
    strict: bool,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let locks = connect::locks(global).await?;
    let servers = locks.__servers().await?;
    let asked = Asked::new(&global.prefix, args.key.as_deref());
    let mut sections = Vec::new();
    let mut known = Vec::new();
    for server in &servers {
        let (section, facts) = look_at(server, &locks, &asked, global).await;
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
    let report = Report::new(sections);
    output::print(global, &report)?;
    Ok(match report.worst {
        Level::Fail => Exit::No,
        Level::Warn if args.strict => Exit::No,
        Level::Warn | Level::Ok => Exit::Success,
    })
}

/// What is found at one server.
async fn look_at(
    server: &Server,
    locks: &Locks,
    asked: &Asked,
    global: &Global,
) -> (Section, Option<Facts>) {
    let mut section = Section {
        at: server.address().to_owned(),
        role: Some(match server.role() {
            Role::Primary => "primary",
            Role::Replica => "replica",
            _ => "sentinel",
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
    let mut findings = server::of_server(&facts, global.response_timeout);
    let is_cluster = facts.info("cluster_enabled") == Some("1");
    match acl::check(server, asked, is_cluster).await {
        Ok(Checked::Findings(of_user)) => findings.extend(of_user),
        // A trial is made where locks are.
        Ok(Checked::Unknown) if *server.role() == Role::Primary => {
            findings.extend(trial::lock(locks, asked).await);
        }
        Ok(Checked::Unknown) => {}
        Err(error) => findings.push(away(server, &error)),
    }
    section.findings = findings;
    (section, Some(facts))
}

fn away(server: &Server, error: &str) -> Finding {
    const CHECK: &str = "connection";
    match server.role() {
        Role::Primary => Finding::fail(
            CHECK,
            error,
            "start it, or look at the network and at the login",
        ),
        _ => Finding::warn(
            CHECK,
            format!("{error}; the others know of it"),
            "start it, or look at whether it can be reached from here by this address",
        ),
    }
}

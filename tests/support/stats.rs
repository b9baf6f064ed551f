//! Which commands a server has executed, from `INFO commandstats`, and with which errors it has answered, from
//! `INFO errorstats`.
//!
//! Redis also counts what scripts call: one EVALSHA of a lock script shows as `evalsha` and as the
//! `hincrby`, `pexpire` and so on that it ran.

use super::server::RedisServer;
use std::collections::BTreeMap;

/// Calls by command, named as the server names them: `evalsha`, `config|get`.
pub type Calls = BTreeMap<String, u64>;

/// What asking costs (INFO, CONFIG RESETSTAT, AUTH) and what every client says as it connects.
/// PING is not among them: nothing here sends it, so one that is counted was sent by the crate.
/// The bare `config` and `client` are how servers before 7.0 count their subcommands.
const LEFT_OUT: [&str; 9] = [
    "info",
    "config",
    "config|resetstat",
    "auth",
    "hello",
    "client",
    "client|setinfo",
    "client|setname",
    "select",
];

/// The calls in an answer to `INFO commandstats`.
pub fn parse(info: &str) -> Calls {
    info.lines()
        .filter_map(|line| {
            let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = figures.split(',').find_map(|f| f.strip_prefix("calls="))?;
            Some((command.to_owned(), calls.parse().ok()?))
        })
        .collect()
}

/// What was called between two looks, commands that were not called left out.
///
/// Leaves out too what the test support sends itself.
pub fn difference(before: &Calls, after: &Calls) -> Calls {
    after
        .iter()
        .filter(|(command, _)| !LEFT_OUT.contains(&command.as_str()))
        .map(|(command, calls)| {
            let earlier = before.get(command).copied().unwrap_or(0);
            (command.clone(), calls.saturating_sub(earlier))
        })
        .filter(|(_, calls)| *calls > 0)
        .collect()
}

/// The figure with this name in a line that begins so; 0 where there is none.
fn figure(info: &str, line: &str, name: &str) -> u64 {
    let mut lines = info.lines();
    let figures = lines.find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
    let mut figures = figures.unwrap_or_default().split(',');
    let figure = figures.find_map(|it| it.trim_end().strip_prefix(name)?.strip_prefix('='));
    figure.map_or(0, |figure| figure.parse().expect("a number"))
}

impl RedisServer {
    /// Whether it is of a series before 7.0.
    pub async fn is_old(&self) -> bool {
        self.ask("INFO server").await.contains("redis_version:6.")
    }

    /// How often it has answered with this error.
    pub async fn errors(&self, code: &str) -> u64 {
        let stats = self.ask("INFO errorstats").await;
        figure(&stats, &format!("errorstat_{code}"), "count")
    }

    /// How often a script has met this error. Before 7.0 the codes of what scripts meet are not counted: there each
    /// script that failed counts.
    pub async fn errors_of_scripts(&self, code: &str) -> u64 {
        if !self.is_old().await {
            return self.errors(code).await;
        }
        let stats = self.ask("INFO commandstats").await;
        let failed = |command| figure(&stats, command, "failed_calls");
        let failed = failed("cmdstat_evalsha") + failed("cmdstat_eval");
        failed - self.errors("NOSCRIPT").await
    }
}

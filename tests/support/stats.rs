//! The commands that a server has executed, from `INFO commandstats`.
//!
//! Redis also counts what scripts call: one EVALSHA of a lock script shows as `evalsha` and as the
//! `hincrby`, `pexpire` and so on that it ran.

use std::collections::BTreeMap;

/// Calls by command, named as the server names them: `evalsha`, `config|get`.
pub type Calls = BTreeMap<String, u64>;

/// The commands for these figures (INFO, CONFIG RESETSTAT, AUTH), the greeting of every client, and the description of its process
/// (SET), for which no request waits.
/// PING is not among them: nothing here sends it, so one that is counted was sent by the crate.
/// The bare `config` and `client` are how servers before 7.0 count their subcommands.
const LEFT_OUT: [&str; 10] = [
    "info",
    "config",
    "config|resetstat",
    "auth",
    "hello",
    "client",
    "client|setinfo",
    "client|setname",
    "select",
    "set",
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

/// The calls between two looks, without commands that were not called.
///
/// Commands of the test support itself are left out too.
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

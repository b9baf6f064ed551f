//! The commands that a server has executed, from `INFO commandstats`.
//!
//! Redis also counts the commands that scripts call. One EVALSHA of a lock script appears as `evalsha`, and as the
//! `hincrby`, `pexpire` and so on that it ran.

use std::collections::BTreeMap;

/// Calls by command, with the names that the server uses: `evalsha`, `config|get`.
pub type Calls = BTreeMap<String, u64>;

/// The commands that do not count. They are those for these figures (INFO, CONFIG RESETSTAT, AUTH), the greeting of
/// every client, and the description of its process (SET), which no request waits for. PING is not among them: the
/// support does not send it, so a counted PING was sent by the crate. Servers before 7.0 count their subcommands as the
/// bare `config` and `client`.
const LEFT_OUT: &str = "info config config|resetstat auth hello client client|setinfo client|setname select \
                        set";

/// The calls in a reply to `INFO commandstats`.
pub fn parse(info: &str) -> Calls {
    info.lines()
        .filter_map(|line| {
            let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = figures.split(',').find_map(|f| f.strip_prefix("calls="))?;
            Some((command.to_owned(), calls.parse().ok()?))
        })
        .collect()
}

/// The calls between two readings, without commands that were not called.
///
/// Commands of the test support itself are omitted too.
pub fn difference(before: &Calls, after: &Calls) -> Calls {
    after
        .iter()
        .filter(|(command, _)| LEFT_OUT.split(' ').all(|it| it != *command))
        .map(|(command, calls)| {
            let earlier = before.get(command).copied().unwrap_or(0);
            (command.clone(), calls.saturating_sub(earlier))
        })
        .filter(|(_, calls)| *calls > 0)
        .collect()
}

//! The Lua scripts, and how they are sent.

use std::{sync::LazyLock, time::Duration};

use deadpool_redis::redis::{
    Arg, Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value,
    aio::MultiplexedConnection, cmd, pipe,
};

use super::names::Entries;
use crate::{
    base::{error::Effect, key::LockKey, slot},
    store::QueueEntry,
};

/// A script and its SHA-1, under which the server caches it.
pub(super) struct Script {
    pub(super) verb: &'static str,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $verb:literal) => {
        pub(super) static $name: Script = Script {
            verb: $verb,
            source: LazyLock::new(|| {
                assemble(include_str!(concat!("../../../lua/", $verb, ".lua")))
            }),
            sha: LazyLock::new(|| sha(&$name.source)),
        };
    };
}

/// What several scripts share, each put where a line says `-- include` and its name. One that others
/// include stands behind them.
const PARTS: [(&str, &str); 5] = [
    ("members", include_str!("../../../lua/parts/members.lua")),
    ("line", include_str!("../../../lua/parts/line.lua")),
    ("entry", include_str!("../../../lua/parts/entry.lua")),
    ("token", include_str!("../../../lua/parts/token.lua")),
    ("mend", include_str!("../../../lua/parts/mend.lua")),
];

fn assemble(verb: &str) -> String {
    PARTS.iter().fold(verb.to_owned(), |source, (name, part)| {
        source.replace(&format!("-- include {name}\n"), part)
    })
}

script!(ACQUIRE, "acquire");
script!(ACQUIRE_ALL, "acquire_all");
script!(DEPTH, "depth");
script!(RENEW, "renew");
script!(RENEW_ALL, "renew_all");
script!(RELEASE, "release");
script!(RETAIN, "retain");
script!(SHARE, "share");
script!(KEEP, "keep");
script!(DOWNGRADE, "downgrade");
script!(UNSHARE, "unshare");
script!(RELEASE_ALL, "release_all");
script!(INSPECT, "inspect");
script!(GLANCE, "glance");
script!(QUEUE, "queue");
script!(FORCE_RELEASE, "force_release");
script!(WAIT, "wait");
script!(LOOK, "look");
script!(HOLDS, "holds");
script!(VICTIM, "victim");
script!(WITHDRAW, "withdraw");

fn sha(source: &str) -> String {
    deadpool_redis::redis::Script::new(source)
        .get_hash()
        .to_owned()
}

/// One call of a script: its keys, then its arguments; or a command that is no script.
#[derive(Clone)]
pub(super) struct Call {
    verb: &'static str,
    script: Option<&'static Script>,
    command: Cmd,
}

impl Script {
    /// Begins a call with so many keys.
    pub(super) fn call(&'static self, keys: usize) -> Call {
        // Room for the longest calls with keys of usual length.
        let mut command = Cmd::with_capacity(16, 512);
        command.arg("EVALSHA").arg(&*self.sha).arg(keys);
        Call {
            verb: self.verb,
            script: Some(self),
            command,
        }
    }
}

/// The call of a script that sees all three keys of a lock.
pub(super) fn lock_and_line(script: &'static Script, key: &LockKey) -> Call {
    let call = script.call(3).arg(key.as_str());
    call.arg(key.line()).arg(Entries(key))
}

/// A span as the scripts count it.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Call {
    /// A command that is no script.
    pub(super) fn command(verb: &'static str, command: Cmd) -> Self {
        Self {
            verb,
            script: None,
            command,
        }
    }

    pub(super) fn verb(&self) -> &'static str {
        self.verb
    }

    /// Whether it ends holds, and changes nothing but what they have left.
    pub(super) fn is_release(&self) -> bool {
        ["release", "unshare", "release_all"].contains(&self.verb)
    }

    /// What makes its script known to the server.
    pub(super) fn load(&self) -> Option<Self> {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(&*self.script?.source);
        Some(Self::command("script", load))
    }

    /// The slot of a cluster in which the keys of a script lie.
    pub(super) fn slot(&self) -> u16 {
        // Behind the name of the command, the script and the count of the keys.
        match self.command.args_iter().nth(3) {
            Some(Arg::Simple(key)) => slot::of(key),
            _ => 0,
        }
    }

    /// Appends a key or an argument.
    pub(super) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn millis(self, duration: Duration) -> Self {
        self.arg(millis(duration))
    }

    /// Appends the id of the inbox, if it is to be told who else comes to wait.
    pub(super) fn told(self, entry: QueueEntry) -> Self {
        if entry.tells {
            self.arg(entry.inbox.id())
        } else {
            self
        }
    }

    /// Appends that the process goes before those who share the lock, if it does; and that it is not told, if that is
    /// not said yet.
    pub(super) fn preferred(self, entry: QueueEntry) -> Self {
        match entry {
            QueueEntry {
                is_preferred: false,
                ..
            } => self,
            QueueEntry { tells: true, .. } => self.arg(1),
            QueueEntry { tells: false, .. } => self.arg("").arg(1),
        }
    }

    /// Sends the script by its hash, and in full only where the server does not know it.
    ///
    /// Not through the driver's own `Script`: in a cluster that loads the script on every node and
    /// fails if one of them is down. `NOSCRIPT` proves that nothing was executed.
    pub(super) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        way: Way,
    ) -> Result<Value, RedisError> {
        match (way.send(&self.command, connection).await, self.script) {
            (Err(error), Some(script))
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) =>
            {
                way.send(&self.in_full(script), connection).await
            }
            (reply, _) => reply,
        }
    }

    fn in_full(&self, script: &Script) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(&*script.source);
        for arg in self.command.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                command.arg(arg);
            }
        }
        command
    }
}

/// How a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    /// To the server to which the slot is being moved: `ASKING` goes before it, in one piece, so that no other command
    /// on the connection comes in between.
    Asking,
}

impl Way {
    async fn send(
        self,
        command: &Cmd,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        match self {
            Self::Plain => command.query_async(connection).await,
            Self::Asking => {
                let mut both = pipe();
                both.cmd("ASKING").add_command(command.clone());
                // The second reply alone.
                let replies = connection.send_packed_commands(&both, 1, 1).await?;
                let reply = replies.into_iter().next().unwrap_or_default();
                reply.extract_error()
            }
        }
    }
}

/// What a failed request may have done, as far as the error tells.
pub(super) fn effect(error: &RedisError) -> Effect {
    use ServerErrorKind as Server;
    match error.kind() {
        ErrorKind::Server(
            Server::BusyLoading
            | Server::ReadOnly
            | Server::Moved
            | Server::Ask
            | Server::TryAgain
            | Server::ClusterDown
            | Server::MasterDown
            | Server::NotBusy,
        ) => Effect::None,
        // The slot of the script moved away while it ran: what it wrote before that stands.
        _ if meets_foreign_key(error) => Effect::Unknown,
        // A script that runs into one of these has met it at its first write.
        _ if condition(error).is_some() => Effect::None,
        ErrorKind::Server(_)
        | ErrorKind::Extension
        | ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported => Effect::Refused,
        _ if error.is_connection_refusal() => Effect::None,
        _ => Effect::Unknown,
    }
}

/// The state of the server that keeps it from writing for now.
///
/// Before Redis 7.0 an error inside a script comes wrapped into a general one, with its code in the
/// text, and one that the script returns begins with the place where it arose.
pub(super) fn condition(error: &RedisError) -> Option<&'static str> {
    const CONDITIONS: [&str; 5] = ["OOM", "MISCONF", "NOREPLICAS", "BUSY", "READONLY"];
    let code = error.code()?;
    let is_wrapped = matches!(code, "ERR" | "@user_script:");
    let wrapped = error.detail().filter(|_| is_wrapped).unwrap_or_default();
    CONDITIONS.into_iter().find(|condition| {
        let inside = wrapped.split(": -").skip(1);
        code == *condition
            || inside
                .last()
                .is_some_and(|text| text.starts_with(condition))
    })
}

/// Whether the user may not touch a key of the request, in the words of Redis 6.2 ("one of the keys") or later ("a key").
/// What else a user may not do has the same code.
pub(super) fn refuses_key(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    error.code() == Some("NOPERM") && detail.contains("access") && detail.contains(" key")
}

/// Whether a script was broken off, maybe in the middle, since a key of it is on another server of the cluster by now.
fn meets_foreign_key(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.contains("attempted to access a non local key")
}

/// An error of the driver as a text: it repeats itself in its own sources, and its type is no part
/// of our interface.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct DriverError(pub(super) RedisError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_opens_with_its_keys_arguments_and_reply() {
        let waits = [&WAIT, &LOOK, &HOLDS, &VICTIM, &WITHDRAW];
        let locks = [
            &ACQUIRE,
            &ACQUIRE_ALL,
            &DEPTH,
            &RENEW,
            &RENEW_ALL,
            &RELEASE,
            &RELEASE_ALL,
            &RETAIN,
            &SHARE,
            &KEEP,
            &DOWNGRADE,
            &UNSHARE,
            &INSPECT,
            &GLANCE,
            &QUEUE,
            &FORCE_RELEASE,
        ];
        for script in locks.into_iter().chain(waits) {
            let mut lines = script.source.lines();
            for opening in ["-- KEYS: ", "-- ARGV: ", "-- returns "] {
                let line = lines.next().unwrap_or_default();
                assert!(line.starts_with(opening), "{}.lua: {line}", script.verb);
            }
        }
    }

    /// The error that a server's line stands for.
    fn error(line: &str) -> RedisError {
        let reply = deadpool_redis::redis::parse_redis_value(format!("{line}\r\n").as_bytes());
        reply.unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn a_server_that_cannot_write_for_now_is_asked_again() {
        let in_script = "-ERR Error running script (call to f_6b1b): @user_script:38: \
                         @user_script: 38: -OOM command not allowed when used memory > 'maxmemory'.";
        for line in [
            "-OOM command not allowed when used memory > 'maxmemory'.",
            "-READONLY You can't write against a read only replica.",
            "-LOADING Redis is loading the dataset in memory",
            "-BUSY Redis is busy running a script.",
            "-NOREPLICAS Not enough good replicas to write.",
            "-MISCONF Redis is configured to save RDB snapshots",
            in_script,
            &in_script.replace("OOM", "READONLY"),
            "-@user_script: 14: -OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            assert_eq!(effect(&error(line)), Effect::None, "{line}");
        }
    }

    #[test]
    fn what_will_never_work_is_not_asked_again() {
        for line in [
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "-NOPERM this user has no permissions to run the 'evalsha' command",
            "-WRONGPASS invalid username-password pair or user is disabled.",
            "-ERR hash value is not an integer",
            "-@user_script: 14: -WRONGTYPE Operation against a key holding the wrong kind of value",
        ] {
            assert_eq!(effect(&error(line)), Effect::Refused, "{line}");
        }
    }

    #[test]
    fn a_key_that_is_refused_is_told_from_a_command_that_is() {
        for (line, is_key) in [
            ("-NOPERM No permissions to access a key", true),
            (
                "-NOPERM this user has no permissions to access one of the keys used as arguments",
                true,
            ),
            (
                "-NOPERM this user has no permissions to run the 'evalsha' command",
                false,
            ),
            (
                "-NOPERM ACL failure in script: User locker has no permissions to run the 'hkeys' command",
                false,
            ),
            ("-NOPERM No permissions to access a channel", false),
            ("-ERR invalid key access", false),
        ] {
            assert_eq!(refuses_key(&error(line)), is_key, "{line}");
        }
    }
}

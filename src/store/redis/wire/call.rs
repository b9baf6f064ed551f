//! One request, and how it is sent.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value, cmd, pipe};

use super::names::Entries;
use super::script::Script;
use crate::base::key::{LockKey, slot_of};
use crate::store::records::QueueEntry;

/// One call of a script: its keys, then its arguments; or a command that is no script.
#[derive(Clone)]
pub(crate) struct Call {
    verb: &'static str,
    script: Option<&'static Script>,
    command: Cmd,
    /// What follows where the answer is 0.
    otherwise: Option<Box<Call>>,
}

impl Script {
    /// Begins a call with so many keys.
    pub(crate) fn call(&'static self, keys: usize) -> Call {
        // Room for the longest calls with keys of usual length.
        let mut command = Cmd::with_capacity(16, 512);
        command.arg("EVALSHA").arg(self.sha()).arg(keys);
        Call {
            verb: self.verb(),
            script: Some(self),
            command,
            otherwise: None,
        }
    }

    /// Begins a call with all three keys of a lock.
    pub(crate) fn on_lock(&'static self, key: &LockKey) -> Call {
        let call = self.call(3).arg(key.as_str());
        call.arg(key.line()).arg(Entries(key))
    }
}

/// A span as the scripts count it.
pub(crate) fn in_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Call {
    /// A command that is no script.
    pub(crate) fn command(verb: &'static str, command: Cmd) -> Self {
        Self {
            verb,
            script: None,
            command,
            otherwise: None,
        }
    }

    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    /// Whether it ends holds, and changes nothing but what they have left.
    pub(crate) fn is_release(&self) -> bool {
        ["release", "unshare", "release_all", "retain"].contains(&self.verb)
    }

    /// What follows where the answer is 0, if anything does.
    pub(crate) fn otherwise(&self) -> Option<&Self> {
        self.otherwise.as_deref()
    }

    pub(crate) fn or(mut self, otherwise: Self) -> Self {
        self.otherwise = Some(Box::new(otherwise));
        self
    }

    /// Whether a replica could answer it.
    pub(crate) fn only_reads(&self) -> bool {
        let reads = [
            "inspect", "glance", "queue", "holds", "look", "scan", "dbsize",
        ];
        reads.contains(&self.verb)
    }

    /// What makes its script known to the server.
    pub(crate) fn load(&self) -> Option<Self> {
        let mut load = cmd("SCRIPT");
        load.arg("LOAD").arg(self.script?.source());
        Some(Self::command("script", load))
    }

    /// The slot of a cluster in which the keys of a script lie.
    pub(crate) fn slot(&self) -> u16 {
        // Behind the name of the command, the script and the count of the keys.
        match self.command.args_iter().nth(3) {
            Some(Arg::Simple(key)) => slot_of(key),
            _ => 0,
        }
    }

    /// Appends a key or an argument.
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn millis(self, duration: Duration) -> Self {
        self.arg(in_millis(duration))
    }

    /// Appends the id of the inbox, if it is to be told who else comes to wait.
    pub(crate) fn told(self, entry: QueueEntry) -> Self {
        if entry.tells {
            self.arg(entry.inbox.id())
        } else {
            self
        }
    }

    /// Sends the script by its hash, and in full only where the server does not know it.
    ///
    /// Not through the driver's own `Script`: in a cluster that loads the script on every node and
    /// fails if one of them is down. `NOSCRIPT` proves that nothing was executed.
    pub(crate) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        way: Way,
    ) -> Result<Value, RedisError> {
        match (way.send(&self.command, connection).await, self.script) {
            (Err(error), Some(script))
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) =>
            {
                let in_full = self.in_full(script);
                Box::pin(way.send(&in_full, connection)).await
            }
            (reply, _) => reply,
        }
    }

    fn in_full(&self, script: &Script) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(script.source());
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
pub(crate) enum Way {
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
            // As `query_async` does, which boxes the future.
            Self::Plain => connection
                .send_packed_command(command)
                .await?
                .extract_error(),
            Self::Asking => {
                let mut both = pipe();
                both.cmd("ASKING").add_command(command.clone());
                // The second reply alone. Boxed, since it is rare, and takes room in every request.
                let replies = Box::pin(connection.send_packed_commands(&both, 1, 1));
                let reply = replies.await?.into_iter().next().unwrap_or_default();
                reply.extract_error()
            }
        }
    }
}

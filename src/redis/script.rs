//! A script, and one call of it with its keys and arguments.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, ErrorKind, RedisError, ServerErrorKind, ToRedisArgs, Value, cmd, pipe};

use crate::base::background::WriteSignal;
use crate::base::key::slot_of;

/// A script and its SHA-1, under which the server caches it.
pub(crate) struct Script {
    verb: &'static str,
    source: LazyLock<String>,
    sha: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(verb: &'static str, source: fn() -> String) -> Self {
        Self {
            verb,
            source: LazyLock::new(source),
            sha: OnceLock::new(),
        }
    }

    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn sha(&self) -> &str {
        let digest = || redis::Script::new(self.source()).get_hash().to_owned();
        self.sha.get_or_init(digest)
    }

    /// Begins a call with this number of keys.
    pub(crate) fn call(&'static self, keys: usize) -> Call {
        // The capacity suffices for keys of usual length, each with an argument.
        let mut command = Cmd::with_capacity(10 + 2 * keys, 300 + 100 * keys);
        command.arg("EVALSHA").arg(self.sha()).arg(keys);
        Call {
            script: self,
            command,
            written: None,
        }
    }
}

/// One call of a script: its keys, then its arguments.
#[derive(Clone)]
pub(crate) struct Call {
    script: &'static Script,
    command: Cmd,
    written: Option<WriteSignal>,
}

/// A duration in the unit of the scripts.
pub(crate) fn in_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Call {
    pub(crate) fn verb(&self) -> &'static str {
        self.script.verb()
    }

    /// The slot of a cluster that contains the keys of a script.
    pub(crate) fn slot(&self) -> u16 {
        // The first key comes after the command, the script and the number of keys.
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

    /// Appends several.
    pub(crate) fn args(mut self, args: impl Iterator<Item: ToRedisArgs>) -> Self {
        args.for_each(|arg| {
            self.command.arg(arg);
        });
        self
    }

    /// Sets the signal that says when the call was written. It is never set if the script may have to be sent in full,
    /// or the connection is not of this crate.
    pub(crate) fn with_write_signal(self, written: Option<WriteSignal>) -> Self {
        Self { written, ..self }
    }

    pub(crate) fn written(&self) -> Option<&WriteSignal> {
        self.written.as_ref()
    }

    pub(crate) fn millis(self, duration: Duration) -> Self {
        self.arg(in_millis(duration))
    }

    /// Sends the script by its hash, and in full only if the server does not know it.
    ///
    /// The driver's own `Script` is not used. In a cluster it loads the script on every node and fails if one of them
    /// is down. `NOSCRIPT` proves that nothing was executed.
    pub(crate) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        mode: SendMode,
    ) -> Result<Value, RedisError> {
        match mode.send(&self.command, connection).await {
            // This error proves that nothing was executed, so the call may be sent once more (P8).
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // Boxed, because it is rare and would make every request larger.
                let in_full = self.in_full();
                Box::pin(mode.send(&in_full, connection)).await
            }
            reply => reply,
        }
    }

    fn in_full(&self) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.script.source());
        // The number of keys, the keys and the arguments stay as they are.
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
pub(crate) enum SendMode {
    Plain,
    /// With `ASKING` before it, for the server to which the slot is being moved. Both are sent as one piece, so that no
    /// other command comes between them.
    Asking,
}

impl SendMode {
    async fn send(
        self,
        command: &Cmd,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, RedisError> {
        match self {
            // This does what `query_async` does, which boxes its future.
            Self::Plain => connection
                .send_packed_command(command)
                .await?
                .extract_error(),
            Self::Asking => {
                // ASKING is for the next command of the connection. In one piece, so that no other request comes
                // between them.
                let mut both = pipe();
                both.cmd("ASKING").add_command(command.clone());
                // Only the second reply is read. The future is boxed, because this is rare and would make every request
                // larger.
                let replies = Box::pin(connection.send_packed_commands(&both, 1, 1));
                let reply = replies.await?.into_iter().next().unwrap_or_default();
                reply.extract_error()
            }
        }
    }
}

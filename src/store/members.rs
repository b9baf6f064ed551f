//! The servers below a store one by one, for programs that check a deployment, or measure it.

use std::{fmt, sync::Arc};

use crate::base::store_error::Answer;

/// One server.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) role: Role,
    pub(crate) commands: Arc<dyn Commands>,
}

/// Where the commands to one server go.
pub(crate) trait Commands: Send + Sync {
    /// Where it is; never the password.
    fn address(&self) -> &str;

    /// Sends one command, once, and waits for the answer.
    fn command(&self, words: Vec<Vec<u8>>) -> Answer<Reply>;
}

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Locks are taken there.
    Primary,
    /// A copy of a primary.
    Replica,
    /// It says where the primary of this name is.
    Sentinel(String),
}

/// What a server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing.
    Nil,
    /// An integer, or a truth value as 0 or 1.
    Int(i64),
    /// A text, a status, or a number that is no integer; with U+FFFD for bytes that are no UTF-8.
    Text(String),
    /// Several; of a map each key with its value behind it.
    List(Vec<Reply>),
    /// It has refused, or failed: its own words.
    Error(String),
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("role", &self.role)
            .field("address", &self.commands.address())
            .finish()
    }
}

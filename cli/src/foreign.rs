//! The values of other programs at keys that should hold locks.

use anyhow::anyhow;
use reentry::{__admin, LockError};

use crate::args::Global;
use crate::inspector::Inspector;

/// A value that is no lock.
pub(crate) struct Foreign {
    /// The value in words.
    pub(crate) what: &'static str,
    key: String,
    /// What it may be.
    why: &'static str,
}

impl Foreign {
    /// The value that an error is about, if it says that the key holds something other than a lock.
    pub(crate) async fn of(error: &anyhow::Error, global: &Global) -> Option<Self> {
        let mut chain = error.chain().filter_map(|it| it.downcast_ref());
        let error: &LockError = chain.find(|it| __admin::is_no_lock(it))?;
        let key = error.key()?.to_owned();
        let (what, why) = match &*type_at(&key, global).await.unwrap_or_default() {
            "string" => (
                "a string, not a lock",
                "does another program lock it with SET NX?",
            ),
            "hash" => ("a hash that is no lock", USED),
            "list" => ("a list, not a lock", USED),
            "set" => ("a set, not a lock", USED),
            "zset" => ("a sorted set, not a lock", USED),
            "stream" => ("a stream, not a lock", USED),
            _ => ("something other than a lock", USED),
        };
        Some(Self { what, key, why })
    }
}

const USED: &str = "does another program use this key?";

/// The type of the value, as Redis names it.
async fn type_at(key: &str, global: &Global) -> anyhow::Result<String> {
    let inspector = Inspector::connect(global).await?;
    Ok(inspector.type_at(key).await?.unwrap_or_default())
}

/// The error in the words of a person who sees the key, without the error of the server.
pub(crate) async fn explained(error: anyhow::Error, global: &Global) -> anyhow::Error {
    match Foreign::of(&error, global).await {
        Some(Foreign { what, key, why }) => anyhow!("`{key}` holds {what}: {why}"),
        None => error,
    }
}

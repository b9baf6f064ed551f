//! The runs that this one runs in, as their environment tells.

use std::env;

use reentry::{LockError, Locks};
use serde::{Deserialize, Serialize};

use crate::args::Global;

/// The variable that lists them, from the outermost on.
pub(super) const VARIABLE: &str = "REENTRY_INSIDE";

/// One lock that a run around this one had when it started its command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Outer {
    hold: String,
    /// The key with its prefix.
    name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Enclosing(Vec<Outer>);

impl Enclosing {
    /// What cannot be read counts as none: then the lock is waited for.
    pub(super) fn of_environment() -> Self {
        let text = env::var(VARIABLE).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    /// The first of these keys that a run around this one holds at this moment, on this server.
    pub(super) async fn holds_one_of<'a>(
        &self,
        keys: &'a [String],
        global: &Global,
        locks: &Locks,
    ) -> Result<Option<&'a str>, LockError> {
        for key in keys {
            let name = format!("{}{key}", global.prefix);
            let outer = self.0.iter().filter(|outer| outer.name == name);
            let holds: Vec<_> = outer.map(|outer| &outer.hold).collect();
            if holds.is_empty() {
                continue;
            }
            // It may have ended, and there may be a lock of that name on another server.
            let holders = locks.inspect(key).await?.map(|info| info.holders);
            let mut holders = holders.into_iter().flatten();
            if holders.any(|holder| holds.contains(&&holder.hold_id)) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// The same with a run that holds these keys, for the environment of its command.
    pub(super) fn and(&self, hold: &str, keys: &[&str], global: &Global) -> String {
        let mut all = self.0.clone();
        all.extend(keys.iter().map(|key| Outer {
            hold: hold.to_owned(),
            name: format!("{}{key}", global.prefix),
        }));
        // Strings have a form in JSON, always.
        serde_json::to_string(&all).unwrap_or_default()
    }
}

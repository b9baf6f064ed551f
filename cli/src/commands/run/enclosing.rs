//! The runs that this one runs in, as their environment tells.

use std::{env, fmt::Display};

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

    /// The same with a run that has these keys and their holds, for the environment of its command.
    pub(super) fn and(&self, holds: &[(&str, impl Display)], prefix: &str) -> String {
        let mut all = self.0.clone();
        all.extend(holds.iter().map(|(key, hold)| Outer {
            hold: hold.to_string(),
            name: format!("{prefix}{key}"),
        }));
        // Strings have a form in JSON, always.
        serde_json::to_string(&all).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_named_with_its_own_hold() {
        let outer = Enclosing(vec![Outer {
            hold: "o:1".to_owned(),
            name: "x".to_owned(),
        }]);
        let text = outer.and(&[("a", "i:1"), ("b", "i:2")], "app:");
        let expected = concat!(
            r#"[{"hold":"o:1","name":"x"},{"hold":"i:1","name":"app:a"},"#,
            r#"{"hold":"i:2","name":"app:b"}]"#
        );
        assert_eq!(text, expected);
    }
}

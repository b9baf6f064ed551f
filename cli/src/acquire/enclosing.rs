//! The runs inside which this one was started, from its environment.

use std::env;
use std::fmt::Display;

use reentry::__admin::HoldId;
use reentry::{FencingToken, LockError, Locks};
use serde::{Deserialize, Serialize};

use crate::args::Global;

/// The variable with their locks, from the outermost run on.
pub(crate) const VARIABLE: &str = "REENTRY_INSIDE";

/// The variable with the hold of the innermost run.
pub(crate) const HOLD: &str = "REENTRY_HOLD";

/// A lock that an enclosing run held when it started its command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Outer {
    hold: String,
    /// The key with its prefix.
    name: String,
    /// The hold; `None` if an older version wrote the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
}

/// A key that an enclosing run holds at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldKey {
    pub(crate) key: String,
    pub(crate) hold: String,
    pub(crate) token: Option<u64>,
    pub(crate) is_shared: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Enclosing(Vec<Outer>);

impl Enclosing {
    /// Reads the environment. An unreadable value counts as none: then the run waits for the lock.
    pub(crate) fn of_environment() -> Self {
        let text = env::var(VARIABLE).unwrap_or_default();
        Self::parse(text.as_bytes())
    }

    fn parse(text: &[u8]) -> Self {
        Self(serde_json::from_slice(text).unwrap_or_default())
    }

    /// Each hold, and the name of its key in the store. These holds enclose everything that this process waits for.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (HoldId, &str)> {
        let all = self.0.iter();
        all.filter_map(|outer| Some((outer.hold.parse().ok()?, &*outer.name)))
    }

    /// The keys that the enclosing runs hold at this moment, on this server.
    pub(crate) async fn held(
        &self,
        keys: &[String],
        global: &Global,
        locks: &Locks,
    ) -> Result<Vec<HeldKey>, LockError> {
        let mut held = Vec::new();
        for key in keys {
            let name = format!("{}{key}", global.prefix);
            let outer: Vec<_> = self.0.iter().filter(|outer| outer.name == name).collect();
            if outer.is_empty() {
                continue;
            }
            // The run may have ended, or another server may have a lock with this name.
            let Some(info) = locks.admin().inspect(key).await? else {
                continue;
            };
            let is_in = |outer: &&&Outer| info.holders.iter().any(|it| it.hold_id == outer.hold);
            held.extend(outer.iter().find(is_in).map(|outer| HeldKey {
                key: key.clone(),
                hold: outer.hold.clone(),
                token: outer.token.or(info.token.map(u64::from)),
                is_shared: info.is_shared,
            }));
        }
        Ok(held)
    }

    /// The runs together with a run that has these keys and holds, for the environment of its command.
    pub(crate) fn and(&self, holds: &[(&str, impl Display, FencingToken)], prefix: &str) -> String {
        let mut all = self.0.clone();
        all.extend(holds.iter().map(|(key, hold, token)| Outer {
            hold: hold.to_string(),
            name: format!("{prefix}{key}"),
            token: Some(u64::from(*token)),
        }));
        // Strings can always be written as JSON.
        serde_json::to_string(&all).unwrap_or_default()
    }
}

/// Whether this is the environment of a command under a hold, directly or through runs in between. The hold elsewhere
/// in the environment means nothing.
pub(crate) fn is_inside(environment: &[u8], hold: &str) -> bool {
    let mut variables = environment.split(|&byte| byte == 0);
    variables.any(|variable| {
        let Some(at) = variable.iter().position(|&byte| byte == b'=') else {
            return false;
        };
        let (name, value) = (&variable[..at], &variable[at + 1..]);
        if name == VARIABLE.as_bytes() {
            return Enclosing::parse(value).0.iter().any(|it| it.hold == hold);
        }
        name == HOLD.as_bytes() && value == hold.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_mentions_a_hold_is_not_inside() {
        let inside = |variables: &[&str]| is_inside(variables.join("\0").as_bytes(), "u:1");
        let list = r#"REENTRY_INSIDE=[{"hold":"o:1","name":"x"},{"hold":"u:1","name":"a=b"}]"#;
        for variables in [
            &["A=b", "REENTRY_HOLD=u:1"][..],
            &[list, ""],
            &["REENTRY_HOLD=i:7", list],
        ] {
            assert!(inside(variables), "{variables:?}");
        }
        for variables in [
            "",
            "u:1",
            "NOTE=REENTRY_HOLD=u:1",
            "REENTRY_HOLD=u:12",
            "REENTRY_HOLD=xu:1",
            "REENTRY_INSIDE=u:1",
            r#"REENTRY_INSIDE=[{"hold":"u:12","name":"u:1"}]"#,
        ] {
            assert!(!inside(&[variables]), "{variables}");
        }
    }

    #[test]
    fn each_key_is_named_with_its_own_hold() {
        let outer = Enclosing(vec![Outer {
            hold: "o:1".to_owned(),
            name: "x".to_owned(),
            token: None,
        }]);
        let [a, b] = [7, 8].map(FencingToken::from);
        let text = outer.and(&[("a", "i:1", a), ("b", "i:2", b)], "app:");
        let expected = concat!(
            r#"[{"hold":"o:1","name":"x"},{"hold":"i:1","name":"app:a","token":7},"#,
            r#"{"hold":"i:2","name":"app:b","token":8}]"#
        );
        assert_eq!(text, expected);
    }
}

//! The permissions of the user, except those for the locks: harmless commands, some of which the server may reject.

use std::process;

use redis::Value;

use super::facts::ask;
use super::finding::Finding;
use crate::servers::{Answer, Server};

const CHECK: &str = "user";

/// A group of commands, and what does not work without them.
struct Need {
    what: &'static str,
    without: &'static str,
    /// The commands, each with the permissions that allow it.
    commands: &'static [(&'static [&'static str], &'static str)],
}

/// The placeholder `ID` is replaced by a number that only the keys of this check have.
const NEEDS: [Need; 4] = [
    Need {
        what: "messages",
        without: "waiters and holders get no messages, and have to poll",
        commands: &[
            (
                &["PUBLISH", "reentry:inbox:ID", ""],
                "+publish &reentry:inbox:*",
            ),
            (
                &["SUBSCRIBE", "reentry:inbox:ID"],
                "+subscribe &reentry:inbox:*",
            ),
            (&["INFO", "replication"], "+info"),
            (&["PING"], "+ping"),
        ],
    },
    Need {
        what: "the detection of deadlocks",
        without: "calls that wait for each other continue to wait",
        commands: &[
            (&["EXISTS", "reentry:waits:{ID}"], "~reentry:waits:*"),
            (&["EXISTS", "reentry:victim:ID"], "~reentry:victim:*"),
        ],
    },
    Need {
        what: "descriptions of processes",
        without: "others see an ID, but not which process holds a lock",
        commands: &[
            (
                &["SET", "reentry:process:ID", "", "PX", "1"],
                "+set ~reentry:process:*",
            ),
            (&["GET", "reentry:process:ID"], "+get"),
            (&["CLIENT", "SETNAME", "reentry-doctor"], "+client|setname"),
        ],
    },
    Need {
        what: "confirmed locks",
        without: "replicas cannot confirm locks, which matters only with `confirm`",
        commands: &[
            (&["WAIT", "0", "1"], "+wait"),
            (
                &["SET", "reentry:confirm:{ID}", "", "PX", "1"],
                "+set ~reentry:confirm:*",
            ),
        ],
    },
];

/// Asks one server.
///
/// # Errors
///
/// The reason why the server does not respond.
pub(crate) async fn check(server: &Server) -> Result<Vec<Finding>, String> {
    let id = process::id().to_string();
    let mut findings = Vec::with_capacity(NEEDS.len());
    for need in &NEEDS {
        let mut missing = Vec::new();
        for (command, rights) in need.commands {
            let words: Vec<_> = command.iter().map(|word| word.replace("ID", &id)).collect();
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            if is_missing(&ask(server, &words).await?) {
                missing.push(*rights);
            }
        }
        findings.push(match missing[..] {
            [] => Finding::ok(
                CHECK,
                format!("the user has the permissions for {}", need.what),
            ),
            _ => Finding::warn(
                CHECK,
                format!(
                    "the user lacks permissions for {}: {}",
                    need.what, need.without
                ),
                missing.join(" "),
            ),
        });
    }
    // The connection is used again, so it must not stay subscribed.
    for unsubscribe in ["UNSUBSCRIBE", "PUNSUBSCRIBE"] {
        let _ = ask::<Value>(server, &[unsubscribe]).await?;
    }
    Ok(findings)
}

/// Whether the user lacks the permission, or the server does not know the command. A redirect to another server of a
/// cluster is not such a response.
fn is_missing(answer: &Answer<Value>) -> bool {
    matches!(answer, Err(said) if said.contains("NOPERM") || said.contains("unknown"))
}

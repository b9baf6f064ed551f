//! What the user may do: every command that the crate sends, asked for one by one and not executed.

use std::collections::HashSet;

use reentry::__admin::{Reply, Role, Server};

use super::{
    asked::{Asked, Key, Of},
    facts::ask,
    finding::{CHECK_OF_USER as CHECK, Finding},
};

/// What is needed for something, and how bad it is without.
struct Need {
    what: &'static str,
    without: &'static str,
    commands: &'static [&'static [&'static str]],
    is_vital: bool,
}

/// `LOCK`, `QUEUE` and the others stand for the keys of the lock that is asked about.
const NEEDS: [Need; 5] = [
    Need {
        what: "locks",
        without: "no lock can be taken",
        commands: &[
            &["EVALSHA", SHA, "1", "LOCK"],
            &["EVAL", "return 1", "1", "LOCK"],
            &["TIME"],
            &["EXISTS", "LOCK"],
            &["DEL", "LOCK"],
            &["PEXPIRE", "LOCK", "1"],
            &["PEXPIREAT", "LOCK", "1"],
            &["PTTL", "LOCK"],
            &["HGET", "LOCK", "f"],
            &["HMGET", "LOCK", "f"],
            &["HSET", "LOCK", "f", "1"],
            &["HDEL", "LOCK", "f"],
            &["HEXISTS", "LOCK", "f"],
            &["HGETALL", "LOCK"],
            &["HLEN", "LOCK"],
            &["HVALS", "ENTRIES"],
            &["ZADD", "QUEUE", "1", "m"],
            &["ZMSCORE", "QUEUE", "m"],
            &["ZRANGE", "QUEUE", "0", "0"],
            &["ZREM", "QUEUE", "m"],
            &["ZREMRANGEBYSCORE", "QUEUE", "0", "0"],
            &["ZSCORE", "QUEUE", "m"],
        ],
        is_vital: true,
    },
    Need {
        what: "messages",
        without: "waiters and holders are not told, and have to ask",
        commands: &[
            &["PUBLISH", "reentry:inbox:x", "m"],
            &["SUBSCRIBE", "reentry:inbox:all"],
            &["INFO", "replication"],
        ],
        is_vital: false,
    },
    Need {
        what: "searches for deadlocks",
        without: "calls that wait for each other go on waiting",
        commands: &[&["HSET", "WAITS", "f", "1"], &["HSET", "VICTIM", "f", "1"]],
        is_vital: false,
    },
    Need {
        what: "lists",
        without: "`reentry ls`, `show` and `watch` are refused",
        commands: &[
            &["SCAN", "0"],
            &["HKEYS", "LOCK"],
            &["ZCOUNT", "QUEUE", "0", "1"],
            &["DBSIZE"],
        ],
        is_vital: false,
    },
    Need {
        what: "confirmed locks",
        without: "replicas confirm no lock, which matters only with `confirm`",
        commands: &[
            &["WAIT", "1", "1"],
            &["SET", "CONFIRM", "1"],
            &["SCRIPT", "LOAD", "return 1"],
        ],
        is_vital: false,
    },
];

const CLUSTER: Need = Need {
    what: "requests to a cluster",
    without: "the crate does not find the servers of the slots",
    commands: &[&["CLUSTER", "SLOTS"], &["CLUSTER", "NODES"], &["ASKING"]],
    is_vital: true,
};

const SHA: &str = "0000000000000000000000000000000000000000";

/// What a check of a user came to.
pub(crate) enum Checked {
    /// The user may not even ask.
    Unknown,
    Findings(Vec<Finding>),
}

/// What a server refuses a command for.
enum Refusal {
    /// The right that is missing, as `ACL SETUSER` takes it.
    Right(String),
    /// The key patterns do not cover the key.
    Key,
}

/// Asks one server.
///
/// # Errors
///
/// Why it does not answer.
pub(crate) async fn check(
    server: &Server,
    asked: &Asked,
    is_cluster: bool,
) -> Result<Checked, String> {
    if matches!(server.role(), Role::Sentinel(_)) {
        return Ok(Checked::Findings(Vec::new()));
    }
    let Reply::Text(user) = ask(server, &["ACL", "WHOAMI"]).await? else {
        return Ok(Checked::Unknown);
    };
    let rules = match ask(server, &["ACL", "DRYRUN", &user, "PING"]).await? {
        // Before Redis 7.0 there is none, and not every user may ask.
        Reply::Error(_) => match Rules::of(server, &user).await? {
            Some(rules) => Some(rules),
            None => return Ok(Checked::Unknown),
        },
        _ => None,
    };
    let mut findings = Vec::new();
    let mut is_covered = true;
    let cluster = is_cluster.then_some(&CLUSTER);
    for need in NEEDS.iter().chain(cluster) {
        let was_covered = is_covered;
        let mut missing = Vec::new();
        for command in need.commands {
            let words: Vec<_> = command.iter().map(|word| asked.word(word)).collect();
            let key = command.iter().find_map(|word| asked.key(word));
            let refusal = match &rules {
                Some(rules) => rules.refuses(&words, key.as_ref()),
                None => dry_run(server, &user, &words).await?,
            };
            match (refusal, key) {
                (Some(Refusal::Right(right)), _) => missing.push(right),
                // The user may have no lock of this name: then it says nothing of those that it has.
                (Some(Refusal::Key), Some(key)) if !asked.is_named() && key.of == Of::Lock => {
                    is_covered = false;
                }
                (Some(Refusal::Key), Some(key)) if !is_covered && key.of == Of::Line => {}
                (Some(Refusal::Key), Some(key)) => missing.push(key.pattern),
                _ => {}
            }
        }
        findings.push(if missing.is_empty() && is_covered != was_covered {
            asked.uncovered()
        } else {
            finding(&user, need, missing)
        });
    }
    Ok(Checked::Findings(findings))
}

fn finding(user: &str, need: &Need, missing: Vec<String>) -> Finding {
    let mut named = HashSet::new();
    let missing: Vec<_> = missing
        .iter()
        .filter(|it| named.insert(*it))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Finding::ok(CHECK, format!("`{user}` may do what {} need", need.what));
    }
    let what = format!(
        "`{user}` may not do what {} need: {}",
        need.what, need.without
    );
    let advice = format!("ACL SETUSER {user} {}", missing.join(" "));
    if need.is_vital {
        Finding::fail(CHECK, what, advice)
    } else {
        Finding::warn(CHECK, what, advice)
    }
}

/// Why the server would refuse a command, if it would.
async fn dry_run(server: &Server, user: &str, words: &[String]) -> Result<Option<Refusal>, String> {
    let command = words.iter().map(String::as_str);
    let words_asked: Vec<_> = ["ACL", "DRYRUN", user].into_iter().chain(command).collect();
    Ok(match ask(server, &words_asked).await? {
        Reply::Text(answer) if answer == "OK" => None,
        Reply::Text(answer) if answer.contains(" key") => Some(Refusal::Key),
        Reply::Text(answer) if answer.contains(" channel") => Some(channels()),
        Reply::Text(_) => Some(Refusal::Right(right(words))),
        // A command that it does not know.
        _ => None,
    })
}

fn channels() -> Refusal {
    Refusal::Right("&reentry:inbox:*".to_owned())
}

/// `+command`, or `+command|subcommand`.
fn right(words: &[String]) -> String {
    match words {
        [command, sub, ..] if ["CLUSTER", "SCRIPT"].contains(&command.as_str()) => {
            format!("+{}|{}", command.to_lowercase(), sub.to_lowercase())
        }
        [command, ..] => format!("+{}", command.to_lowercase()),
        [] => String::new(),
    }
}

/// The rules of a user, for servers that cannot be asked about one command.
struct Rules {
    /// In their order: whether it is allowed, and what.
    commands: Vec<(bool, Vec<String>)>,
    keys: Vec<String>,
    channels: Vec<String>,
}

impl Rules {
    async fn of(server: &Server, user: &str) -> Result<Option<Self>, String> {
        let Reply::List(fields) = ask(server, &["ACL", "GETUSER", user]).await? else {
            return Ok(None);
        };
        let of = |name: &'static str| {
            let pairs = fields.chunks_exact(2);
            pairs.filter_map(move |pair| match pair {
                [Reply::Text(key), value] if key == name => Some(words(value)),
                _ => None,
            })
        };
        let mut commands = Vec::new();
        for rule in of("commands").flatten() {
            let Some((is_allowed, name)) = sign(&rule) else {
                continue;
            };
            let names = match name.strip_prefix('@') {
                Some("all") => vec!["*".to_owned()],
                Some(category) => words(&ask(server, &["ACL", "CAT", category]).await?),
                None => vec![name.to_owned()],
            };
            commands.push((is_allowed, names));
        }
        let bare = |patterns: Vec<String>, mark: char| {
            let patterns = patterns.into_iter();
            patterns
                .map(|it| it.trim_start_matches(mark).to_owned())
                .collect()
        };
        Ok(Some(Self {
            commands,
            keys: bare(of("keys").flatten().collect(), '~'),
            channels: bare(of("channels").flatten().collect(), '&'),
        }))
    }

    /// Why the server would refuse a command that is about this key.
    fn refuses(&self, words: &[String], key: Option<&Key>) -> Option<Refusal> {
        let right = right(words);
        let name = right.trim_start_matches('+');
        let command = name.split('|').next().unwrap_or(name);
        let is_about = |names: &Vec<String>| {
            names
                .iter()
                .any(|it| it == "*" || it == name || it == command)
        };
        let last = self
            .commands
            .iter()
            .rev()
            .find(|(_, names)| is_about(names));
        if !last.is_some_and(|(is_allowed, _)| *is_allowed) {
            return Some(Refusal::Right(right));
        }
        let begins = |patterns: &[String], text: &str| {
            patterns.iter().any(|pattern| {
                let plain = pattern.strip_suffix('*').unwrap_or(pattern);
                plain.is_empty() || text.starts_with(plain)
            })
        };
        match words {
            [command, channel, ..] if ["PUBLISH", "SUBSCRIBE"].contains(&command.as_str()) => {
                (!begins(&self.channels, channel)).then(channels)
            }
            _ => (!begins(&self.keys, &key?.name)).then_some(Refusal::Key),
        }
    }
}

fn sign(rule: &str) -> Option<(bool, &str)> {
    let allowed = rule.strip_prefix('+').map(|name| (true, name));
    allowed.or_else(|| rule.strip_prefix('-').map(|name| (false, name)))
}

/// The words of a reply, be it a list of them or one text.
fn words(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        Reply::List(list) => list.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

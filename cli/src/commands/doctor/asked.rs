//! The lock that a user is asked about, and the keys that stand for it on the server.

use super::finding::{CHECK_OF_USER as CHECK, Finding};

/// What is asked about where no key is named.
const UNNAMED: &str = "reentry-doctor";

/// The lock that a user is asked about.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    prefix: String,
    name: Option<String>,
}

/// A key that a command is about.
pub(crate) struct Key {
    pub(crate) name: String,
    /// What would allow it, as `ACL SETUSER` takes it.
    pub(crate) pattern: String,
    pub(crate) of: Of,
}

/// What a key has to do with the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// It is the lock.
    Lock,
    /// It is named after the lock: a user who may not touch the one may not touch the other.
    Line,
    /// It is named after something else.
    Wait,
}

impl Asked {
    pub(crate) fn new(prefix: &str, name: Option<&str>) -> Self {
        Self {
            prefix: prefix.to_owned(),
            name: name.map(str::to_owned),
        }
    }

    /// Whether the user is known to need this lock.
    pub(crate) fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// The key that a lock is tried with, without the prefix.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(UNNAMED)
    }

    /// What a word of a command stands for.
    pub(crate) fn word(&self, word: &str) -> String {
        self.key(word)
            .map_or_else(|| word.to_owned(), |key| key.name)
    }

    /// The key that a word stands for, if it stands for one.
    pub(crate) fn key(&self, word: &str) -> Option<Key> {
        let lock = self.full();
        let kind = word.to_lowercase();
        let name = match word {
            "LOCK" => lock,
            "QUEUE" | "ENTRIES" => format!("reentry:{kind}:{{{lock}}}:{lock}"),
            "CONFIRM" => format!("reentry:{kind}:{{{lock}}}"),
            // After an owner, and after a wait.
            "WAITS" => format!("reentry:{kind}:{{0}}"),
            "VICTIM" => format!("reentry:{kind}:0"),
            _ => return None,
        };
        let pattern = match word {
            "LOCK" if self.prefix.is_empty() => literal(&name),
            "LOCK" => literal(&self.prefix) + "*",
            _ => format!("reentry:{kind}:*"),
        };
        Some(Key {
            name,
            pattern: format!("~{pattern}"),
            of: match word {
                "LOCK" => Of::Lock,
                "WAITS" | "VICTIM" => Of::Wait,
                _ => Of::Line,
            },
        })
    }

    /// The name of the lock on the server.
    fn full(&self) -> String {
        format!("{}{}", self.prefix, self.name())
    }

    /// That nothing is known of the locks which this user takes.
    pub(crate) fn uncovered(&self) -> Finding {
        Finding::warn(
            CHECK,
            format!(
                "its key patterns do not cover `{}`, which was asked about: whether they cover the locks that it needs is not known",
                self.full()
            ),
            "say `--key NAME`, with the name of a lock that it needs",
        )
    }
}

/// A pattern that means this text.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(prefix: &str, name: &str) -> Vec<String> {
        let asked = Asked::new(prefix, Some(name));
        let words = ["LOCK", "QUEUE", "WAITS", "HSET"].into_iter();
        words
            .filter_map(|word| asked.key(word))
            .map(|it| it.pattern)
            .collect()
    }

    #[test]
    fn a_pattern_allows_no_more_than_is_asked_about() {
        assert_eq!(
            patterns("", "order:*"),
            ["~order:\\*", "~reentry:queue:*", "~reentry:waits:*"]
        );
        assert_eq!(patterns("app:", "order:42")[0], "~app:*");
    }
}

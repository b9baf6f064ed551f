//! The Lua scripts as they are sent.

use std::sync::LazyLock;

/// A script and its SHA-1, under which the server caches it.
pub(super) struct Script {
    pub(super) verb: &'static str,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

macro_rules! script {
    ($name:ident, $verb:literal) => {
        pub(super) static $name: Script = Script {
            verb: $verb,
            source: LazyLock::new(|| {
                assemble(include_str!(concat!("../../../lua/", $verb, ".lua")))
            }),
            sha: LazyLock::new(|| sha(&$name.source)),
        };
    };
}

/// What several scripts share, each put where a line says `-- include` and its name. One that others
/// include stands behind them.
const PARTS: [(&str, &str); 7] = [
    ("members", include_str!("../../../lua/parts/members.lua")),
    ("line", include_str!("../../../lua/parts/line.lua")),
    ("entry", include_str!("../../../lua/parts/entry.lua")),
    ("token", include_str!("../../../lua/parts/token.lua")),
    ("holder", include_str!("../../../lua/parts/holder.lua")),
    ("mend", include_str!("../../../lua/parts/mend.lua")),
    ("read", include_str!("../../../lua/parts/read.lua")),
];

fn assemble(verb: &str) -> String {
    PARTS.iter().fold(verb.to_owned(), |source, (name, part)| {
        source.replace(&format!("-- include {name}\n"), part)
    })
}

script!(ACQUIRE, "acquire");
script!(ACQUIRE_ALL, "acquire_all");
script!(DEPTH, "depth");
script!(RENEW, "renew");
script!(RENEW_ALL, "renew_all");
script!(RELEASE, "release");
script!(RETAIN, "retain");
script!(SHARE, "share");
script!(KEEP, "keep");
script!(DOWNGRADE, "downgrade");
script!(UNSHARE, "unshare");
script!(RELEASE_ALL, "release_all");
script!(INSPECT, "inspect");
script!(GLANCE, "glance");
script!(QUEUE, "queue");
script!(FORCE_RELEASE, "force_release");
script!(WAIT, "wait");
script!(LOOK, "look");
script!(HOLDS, "holds");
script!(VICTIM, "victim");
script!(WITHDRAW, "withdraw");

fn sha(source: &str) -> String {
    redis::Script::new(source).get_hash().to_owned()
}

impl Script {
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn sha(&self) -> &str {
        &self.sha
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_opens_with_its_keys_and_formats_numbers_alone() {
        let waits = [&WAIT, &LOOK, &HOLDS, &VICTIM, &WITHDRAW];
        let locks = [
            &ACQUIRE,
            &ACQUIRE_ALL,
            &DEPTH,
            &RENEW,
            &RENEW_ALL,
            &RELEASE,
            &RELEASE_ALL,
            &RETAIN,
            &SHARE,
            &KEEP,
            &DOWNGRADE,
            &UNSHARE,
            &INSPECT,
            &GLANCE,
            &QUEUE,
            &FORCE_RELEASE,
        ];
        for script in locks.into_iter().chain(waits) {
            let mut lines = script.source.lines();
            for opening in ["-- KEYS: ", "-- ARGV: ", "-- returns "] {
                let line = lines.next().unwrap_or_default();
                assert!(line.starts_with(opening), "{}.lua: {line}", script.verb);
            }
            // Lua cuts a short text at its first NUL there. Texts are joined.
            assert!(!script.source.contains("%s"), "{}.lua", script.verb);
        }
    }
}

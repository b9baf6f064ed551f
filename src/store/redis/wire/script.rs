//! The Lua scripts as they are sent.

use std::sync::LazyLock;

use crate::store::records::limits_in_scripts;

/// A script and its SHA-1, under which the server caches it.
pub(crate) struct Script {
    verb: &'static str,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

/// The script of this name in `lua/`. For the files in `store/verbs/`.
macro_rules! script {
    ($verb:literal) => {{
        static SCRIPT: Script = Script::new(
            $verb,
            || Script::assemble(include_str!(concat!("../../../lua/", $verb, ".lua"))),
            || SCRIPT.digest(),
        );
        &SCRIPT
    }};
}

pub(crate) use script;

/// What several scripts share, each put where a line says `-- include` and its name. One that others
/// include stands behind them.
const PARTS: [(&str, &str); 7] = [
    ("members", include_str!("../../../../lua/parts/members.lua")),
    ("line", include_str!("../../../../lua/parts/line.lua")),
    ("entry", include_str!("../../../../lua/parts/entry.lua")),
    ("token", include_str!("../../../../lua/parts/token.lua")),
    ("holder", include_str!("../../../../lua/parts/holder.lua")),
    ("repair", include_str!("../../../../lua/parts/repair.lua")),
    ("read", include_str!("../../../../lua/parts/read.lua")),
];

impl Script {
    pub(crate) const fn new(
        verb: &'static str,
        source: fn() -> String,
        sha: fn() -> String,
    ) -> Self {
        Self {
            verb,
            source: LazyLock::new(source),
            sha: LazyLock::new(sha),
        }
    }

    /// Puts in the parts, and the limits for their names.
    pub(crate) fn assemble(verb: &str) -> String {
        let whole = PARTS.iter().fold(verb.to_owned(), |source, (name, part)| {
            source.replace(&format!("-- include {name}\n"), part)
        });
        let limits = limits_in_scripts().into_iter();
        limits.fold(whole, |source, (name, limit)| {
            source.replace(name, &limit.to_string())
        })
    }

    pub(crate) fn digest(&self) -> String {
        redis::Script::new(&self.source).get_hash().to_owned()
    }

    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn sha(&self) -> &str {
        &self.sha
    }
}

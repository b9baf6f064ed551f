//! The scripts, which are assembled from the files in `lua/`, and the arguments that name a lock.

use super::codec::EntriesKey;
use crate::base::key::LockKey;
use crate::redis::{Call, Script};
use crate::store::records::{QueueEntry, limits_in_scripts};

/// The script with this name in `lua/`. The macro is for files in folders at the depth of `store/verbs/`.
macro_rules! script {
    ($verb:literal) => {{
        static SCRIPT: $crate::redis::Script = $crate::redis::Script::new($verb, || {
            $crate::store::redis::lua::assemble(include_str!(concat!(
                "../../../lua/",
                $verb,
                ".lua"
            )))
        });
        &SCRIPT
    }};
}

pub(crate) use script;

/// The parts that several scripts share. Each replaces the lines `-- include` with its name. A part that is included by
/// other parts comes after them.
const PARTS: [(&str, &str); 11] = [
    ("readers", include_str!("../../../lua/parts/readers.lua")),
    ("queue", include_str!("../../../lua/parts/queue.lua")),
    ("hand_off", include_str!("../../../lua/parts/hand_off.lua")),
    ("expire", include_str!("../../../lua/parts/expire.lua")),
    ("entry", include_str!("../../../lua/parts/entry.lua")),
    ("token", include_str!("../../../lua/parts/token.lua")),
    ("holder", include_str!("../../../lua/parts/holder.lua")),
    ("repair", include_str!("../../../lua/parts/repair.lua")),
    ("read", include_str!("../../../lua/parts/read.lua")),
    (
        "reader_exit",
        include_str!("../../../lua/parts/reader_exit.lua"),
    ),
    ("fields", include_str!("../../../lua/parts/fields.lua")),
];

/// Inserts the parts, and replaces the names of limits by their values. Comments, indentation and empty lines are
/// left out, because a server that has forgotten its scripts gets the whole text with each request in flight.
pub(crate) fn assemble(verb: &str) -> String {
    // In this order, because a part includes parts that come after it.
    let whole = PARTS.iter().fold(verb.to_owned(), |source, (name, part)| {
        source.replace(&format!("-- include {name}\n"), part)
    });
    let lines = whole.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("--"));
    let code: String = code.flat_map(|line| [line, "\n"]).collect();
    let limits = limits_in_scripts().into_iter();
    limits.fold(code, |source, (name, limit)| {
        source.replace(name, &limit.to_string())
    })
}

impl Script {
    /// Begins a call with all three keys of a lock.
    pub(crate) fn call_on_lock(&'static self, key: &LockKey) -> Call {
        let call = self.call(3).arg(key.as_str());
        call.arg(key.queue()).arg(EntriesKey(key))
    }
}

impl Call {
    /// Appends the id of the inbox, if the inbox gets a message when another process begins to wait.
    pub(crate) fn contended_inbox(self, entry: QueueEntry) -> Self {
        match entry.contended_inbox() {
            Some(inbox) => self.arg(inbox.id()),
            None => self,
        }
    }
}

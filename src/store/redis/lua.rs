//! The scripts, which are assembled from the files in `lua/`, and the arguments that name a lock. A verb is executed by
//! one of them.

use super::codec::{EntriesKey, limits_in_scripts};
use crate::base::key::LockKey;
use crate::redis::{Call, Script};

/// Declares the scripts, each with its file in `lua/`, and a list of them all.
macro_rules! scripts {
    ($($id:ident $verb:literal;)+) => {
        $(pub(crate) static $id: Script = Script::new($verb, || {
            assemble(include_str!(concat!("../../../lua/", $verb, ".lua")))
        });)+

        /// All scripts, for the code that loads or checks each of them.
        pub(crate) static ALL: &[&Script] = &[$(&$id),+];
    };
}

scripts! {
    ACQUIRE "acquire";
    ACQUIRE_SHARED "acquire_shared";
    BATCH "batch";
    CLAIM_VICTIM "claim_victim";
    FORCE_RELEASE "force_release";
    INSPECT "inspect";
    LIST_HOLDS "list_holds";
    LIST_WAITS "list_waits";
    READ_DESCRIPTION "read_description";
    RELEASE "release";
    RENEW "renew";
    RENEW_READERS "renew_readers";
    SET_DEPTH "set_depth";
    UPDATE_WAIT "update_wait";
}

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The text of the file, with its comments.
    fn text(verb: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua");
        fs::read_to_string(folder.join(format!("{verb}.lua"))).expect("a script")
    }

    #[test]
    fn every_script_opens_with_its_keys_and_formats_numbers_alone() {
        for script in ALL {
            let text = text(script.verb());
            // A line that continues another one is indented.
            let mut lines = text.lines().filter(|line| !line.starts_with("--  "));
            for opening in ["-- KEYS: ", "-- ARGV: ", "-- returns "] {
                let line = lines.next().unwrap_or_default();
                assert!(line.starts_with(opening), "{}.lua: {line}", script.verb());
            }
            // With this format, Lua cuts a short text at its first NUL. So texts are concatenated.
            assert!(!script.source().contains("%s"), "{}.lua", script.verb());
        }
    }

    /// After SCRIPT FLUSH, each request in flight carries its whole script.
    #[test]
    fn a_script_is_sent_without_comments_and_blanks() {
        let (mut sent, mut longest) = (0, 0);
        for script in ALL {
            let (verb, source) = (script.verb(), script.source());
            assert!(!source.contains("--"), "{verb}.lua");
            for line in source.lines() {
                assert!(
                    !line.is_empty() && line == line.trim(),
                    "{verb}.lua: {line}"
                );
            }
            sent += source.len();
            longest = longest.max(source.len());
        }
        assert!((60_000..110_000).contains(&sent), "{sent} bytes in all");
        assert!(longest < 14_000, "{longest} bytes");
    }

    /// Some services read the text of a script, and reject it unless each command names its keys in this way.
    #[test]
    fn every_command_names_its_keys_as_elements_of_keys() {
        for script in ALL {
            let calls = script.source().split("redis.").skip(1);
            let calls = calls.filter_map(|rest| {
                let rest = rest.strip_prefix("call(").or(rest.strip_prefix("pcall("))?;
                Some(rest.split_once(", ").unwrap_or((rest, "")))
            });
            for (command, arguments) in calls {
                let is_keyless = ["'TIME'", "'PUBLISH'"]
                    .iter()
                    .any(|it| command.starts_with(it));
                let verb = script.verb();
                // A batch names several keys that follow each other. All others name each key.
                let takes_many = ["'DEL'", "'EXISTS'"].contains(&command);
                let is_range = verb == "batch" && takes_many;
                let has_keys = is_range && arguments.starts_with("unpack(KEYS, ");
                let has_key = has_keys || arguments.starts_with("KEYS[");
                assert!(command.starts_with('\''), "{verb}.lua: {command}");
                assert!(is_keyless || has_key, "{verb}.lua: {command}, {arguments}");
                if takes_many && !has_keys {
                    let (arguments, _) = arguments.split_once(')').unwrap_or_default();
                    let are_keys = arguments.split(", ").all(|it| it.starts_with("KEYS["));
                    assert!(are_keys, "{verb}.lua: {command}, {arguments}");
                }
            }
        }
    }

    #[test]
    fn every_part_and_limit_of_a_script_is_inserted() {
        let limits = limits_in_scripts().map(|(name, _)| name);
        for script in ALL {
            let (verb, source) = (script.verb(), script.source());
            assert!(!source.contains("-- include"), "{verb}.lua");
            // Only a limit has an underscore between capitals, even if it is misspelt.
            let is_limit = |word: &&str| {
                let is_capital = |c: char| c.is_ascii_uppercase() || c == '_';
                let is_spelt = word.len() > 1 && word.contains('_') && word.chars().all(is_capital);
                limits.contains(word) || is_spelt
            };
            let mut words = source.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert_eq!(words.find(is_limit), None, "{verb}.lua");
        }
    }
}

//! All scripts, for the code that loads or checks each of them.

use super::{
    Verb, acquire, acquire_shared, deadlock_search, inspect, read_description, release, renew,
    set_depth,
};
use crate::redis::Script;
use crate::store::redis::batch;

/// All scripts of verbs, and the one that executes many short requests.
pub(crate) fn scripts() -> [&'static Script; 14] {
    [
        acquire::Acquire::script(),
        acquire_shared::AcquireShared::script(),
        batch::script(),
        deadlock_search::ClaimVictim::script(),
        deadlock_search::ListHolds::script(),
        deadlock_search::ListWaits::script(),
        deadlock_search::UpdateWait::script(),
        inspect::ForceRelease::script(),
        inspect::Inspect::script(),
        read_description::ReadDescription::script(),
        release::Release::script(),
        renew::Renew::script(),
        renew::RenewReaders::script(),
        set_depth::SetDepth::script(),
    ]
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::scripts;
    use crate::store::records::limits_in_scripts;

    /// The text of the file, with its comments.
    fn text(verb: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua");
        fs::read_to_string(folder.join(format!("{verb}.lua"))).expect("a script")
    }

    #[test]
    fn every_script_opens_with_its_keys_and_formats_numbers_alone() {
        for script in scripts() {
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
        for script in scripts() {
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
        for script in scripts() {
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
        for script in scripts() {
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

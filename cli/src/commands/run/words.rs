//! The key and the command among the words of `reentry run`.
//!
//! Without `--key` the first word is the key. Two forms do not determine which word is the key, or to which program an
//! option belongs. So they are errors: `--` before the first word, and an option after it.

use std::env;
use std::ffi::{OsStr, OsString};

use anyhow::{Context, bail, ensure};

use super::args::Args;

/// The word before a command.
const DASHES: &str = "--";

/// The keys, and the command with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) keys: Vec<String>,
    pub(super) command: Vec<OsString>,
}

/// The task of this process.
///
/// # Errors
///
/// The message says what to write.
pub(super) fn task(args: &Args) -> anyhow::Result<Task> {
    // The words are the last ones, and clap leaves the word before them out.
    let before = env::args_os().rev().nth(args.words.len());
    let is_dashed = before.is_some_and(|word| word == DASHES);
    Task::new(&args.keys, args.line.as_deref(), &args.words, is_dashed)
}

impl Task {
    /// `is_dashed`: `--` is before the words.
    fn new(
        keys: &[String],
        line: Option<&OsStr>,
        words: &[OsString],
        is_dashed: bool,
    ) -> anyhow::Result<Self> {
        let (key, rest) = match (keys, words) {
            ([], [key, rest @ ..]) => (Some(key), rest),
            ([], []) => bail!("the key is missing: write `reentry run KEY -- COMMAND`"),
            (_, words) => (None, words),
        };
        let command = match (line, rest) {
            (Some(line), []) => [OsStr::new("sh"), OsStr::new("-c"), line]
                .map(OsStr::to_owned)
                .to_vec(),
            (Some(_), [word, ..]) => bail!(
                "`-c` cannot be combined with a command: leave out `{}` after `reentry run -c LINE {}`",
                shown(word),
                key.map_or("--key KEY".to_owned(), |_| "KEY".to_owned())
            ),
            (None, rest) => command(key, rest, is_dashed)?,
        };
        let keys = match key {
            Some(key) => vec![
                key.to_str()
                    .context("the key is not valid UTF-8")?
                    .to_owned(),
            ],
            None => keys.to_vec(),
        };
        ensure!(
            !keys.iter().any(|key| key.contains('\n')),
            "a key must not contain a newline: `REENTRY_KEY` has one line for each key"
        );
        Ok(Self { keys, command })
    }
}

/// The command after the key.
fn command(
    key: Option<&OsString>,
    rest: &[OsString],
    is_dashed: bool,
) -> anyhow::Result<Vec<OsString>> {
    let Some(key) = key.map(|key| shown(key)) else {
        ensure!(
            !rest.is_empty(),
            "the command is missing: write `reentry run --key KEY -- COMMAND`"
        );
        return Ok(rest.to_vec());
    };
    ensure!(
        !is_dashed,
        "`--` before `{key}` makes it the command, so the key is missing: write `reentry run KEY -- {key}`"
    );
    match rest {
        [] => bail!(
            "the key or the command is missing next to `{key}`: write `reentry run KEY -- {key}` or \
             `reentry run {key} -- COMMAND`"
        ),
        [dashes] if dashes == DASHES => {
            bail!("the command is missing: write `reentry run {key} -- COMMAND`")
        }
        [dashes, command @ ..] if dashes == DASHES => Ok(command.to_vec()),
        [option, ..] if option.as_encoded_bytes().starts_with(b"-") => {
            let option = shown(option);
            // A value may be a password.
            let (option, _) = option.split_once('=').unwrap_or((&option, ""));
            bail!(
                "`{option}` after `{key}` is ambiguous: write an option of `reentry` before the key, as in \
                 `reentry run {option} … KEY -- COMMAND`, or an option of the command after `--`, as in \
                 `reentry run KEY -- {key} {option} …`"
            )
        }
        command => Ok(command.to_vec()),
    }
}

fn shown(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and the command, or the error.
    fn read(keys: &[&str], line: Option<&str>, words: &str, is_dashed: bool) -> String {
        let keys: Vec<_> = keys.iter().map(|&key| key.to_owned()).collect();
        let words: Vec<_> = words.split_whitespace().map(OsString::from).collect();
        let task = Task::new(&keys, line.map(OsStr::new), &words, is_dashed);
        match task {
            Ok(Task { keys, command }) => {
                let command: Vec<_> = command.iter().map(|word| shown(word)).collect();
                format!("{}: {}", keys.join(","), command.join(" "))
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn the_first_word_is_the_key_unless_an_option_names_it() {
        for (keys, line, words, is_dashed, expected) in [
            (&[][..], None, "backup ls -l", false, "backup: ls -l"),
            (&[], None, "backup -- ls -l", false, "backup: ls -l"),
            (&[], None, "backup -- -x", false, "backup: -x"),
            (&[], None, "backup ls -- -l", false, "backup: ls -- -l"),
            (
                &[],
                Some("ls | wc"),
                "backup",
                false,
                "backup: sh -c ls | wc",
            ),
            (&[], Some("ls"), "-k", true, "-k: sh -c ls"),
            (&["a"], None, "ls -l", false, "a: ls -l"),
            (&["a", "b"], None, "ls -- -l", true, "a,b: ls -- -l"),
            (&["a"], Some("ls"), "", false, "a: sh -c ls"),
        ] {
            assert_eq!(read(keys, line, words, is_dashed), expected, "{words}");
        }
    }

    #[test]
    fn what_is_ambiguous_is_an_error_that_says_what_to_write() {
        for (keys, line, words, is_dashed, expected) in [
            (&[][..], None, "", false, "reentry run KEY -- COMMAND"),
            (&["a"], None, "", false, "reentry run --key KEY -- COMMAND"),
            (&[], None, "ls", false, "reentry run KEY -- ls"),
            (
                &[],
                None,
                "backup --",
                false,
                "reentry run backup -- COMMAND",
            ),
            (&[], None, "ls -l", false, "reentry run KEY -- ls -l …"),
            (
                &[],
                None,
                "backup -n -- ls",
                false,
                "reentry run -n … KEY -- COMMAND",
            ),
            (&[], None, "ls a", true, "reentry run KEY -- ls"),
            (
                &[],
                Some("x"),
                "backup ls",
                false,
                "reentry run -c LINE KEY",
            ),
            (
                &["a"],
                Some("x"),
                "ls",
                false,
                "reentry run -c LINE --key KEY",
            ),
        ] {
            let error = read(keys, line, words, is_dashed);
            assert!(
                error.starts_with("error") && error.contains(expected),
                "{words}: {error}"
            );
        }
        for keys in [&["a\nb"][..], &["a", "b\nc"]] {
            let error = read(keys, None, "ls", false);
            assert!(error.contains("newline"), "{keys:?}: {error}");
        }
        let error = read(&[], None, "backup --url=redis://:hunter2@host ls", false);
        assert!(
            error.contains("--url") && !error.contains("hunter2"),
            "{error}"
        );
    }
}

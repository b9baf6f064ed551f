//! Errors in the arguments, in the form of all other errors, and without the password of an address.

use std::borrow::Cow;
use std::env;
use std::io::Write;

use anyhow::anyhow;

use crate::exit::{Exit, Failure};
use crate::text::printable;

/// Prints the error, or the help that was asked for.
pub(crate) fn say(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // If nothing can be printed, the exit code must say it.
        let _ = error.print();
        return Exit::Success;
    }
    let words = env::args_os().skip(1);
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let text = error.render().to_string();
    let safe = safe(&text, &words);
    if words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json")
    {
        let (what, _usage) = safe.split_once("\n\n").unwrap_or((&safe, ""));
        let what = what.trim().trim_start_matches("error: ");
        let what: Vec<_> = what.lines().map(str::trim).collect();
        return Failure::new(anyhow!(what.join(" ")), true).say();
    }
    if safe == text {
        let _ = error.print();
    } else {
        let _ = write!(anstream::stderr(), "{safe}");
    }
    Exit::Failed
}

/// The text without control characters for the terminal, and without the passwords in these words.
fn safe(text: &str, words: &[String]) -> String {
    let mut text = Cow::Borrowed(text);
    for secret in words.iter().filter_map(|word| secret(word)) {
        let mut parts = text.split(SCHEME);
        let mut kept = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            kept += SCHEME;
            // The word may be cut, for example at a `=`.
            let same = part.char_indices().zip(secret.chars());
            let same = same.take_while(|((_, one), other)| one == other).last();
            let end = same.map(|((at, last), _)| at + last.len_utf8());
            if let Some(end) = end {
                kept += "***";
                kept += &part[end..];
            } else {
                kept += part;
            }
        }
        text = Cow::Owned(kept);
    }
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

const SCHEME: &str = "://";

/// The name and the password of an address.
fn secret(word: &str) -> Option<&str> {
    let (_, rest) = word.split_once(SCHEME)?;
    let (secret, _) = rest.rsplit_once('@')?;
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_repeated() {
        for (word, text, expected) in [
            (
                "redis://:hunter2@host",
                "error: unexpected argument 'redis://:hunter2@host' found\n",
                "error: unexpected argument 'redis://***@host' found\n",
            ),
            // For clap, the name of an option ends at its `=`.
            (
                "--redis://me:hun=ter2@host",
                "'--redis://me:hun' (redis://, rediss://)",
                "'--redis://***' (redis://, rediss://)",
            ),
            ("redis://a@b@host", "redis://a@b@host", "redis://***@host"),
            ("redis://host", "redis://host\u{1b}", "redis://host\\u{1b}"),
        ] {
            assert_eq!(safe(text, &[word.to_owned()]), expected);
        }
    }
}

//! Errors in the arguments, in the form of all other errors.

use std::env;
use std::io::Write;

use anyhow::anyhow;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{Exit, Failure};
use crate::text::printable;

/// What to write instead of words that are no subcommands, although a user may expect them.
const INSTEAD: [(&str, &str); 3] = [
    (
        "lock",
        "`reentry run KEY -- COMMAND` runs a command under a lock, `reentry hold KEY` holds it for a script",
    ),
    (
        "unlock",
        "`reentry release KEY` takes a lock away from its holder",
    ),
    (
        "status",
        "`reentry ls` lists the locks that are held, `reentry show KEY` shows one",
    ),
];

/// Prints the error, or the help that was asked for.
pub(crate) fn say(mut error: clap::Error) -> Exit {
    if !error.use_stderr() {
        // If nothing can be printed, the exit code must say it.
        let _ = error.print();
        return Exit::Success;
    }
    advise(&mut error);
    let rendered = error.render();
    let text = rendered.to_string();
    let mut words = env::args_os().skip(1).take_while(|word| word != "--");
    if words.any(|word| word == "--json") {
        let ends = ["\n\nUsage:", "\n\nFor more"].map(|end| text.find(end));
        let end = ends.into_iter().flatten().min().unwrap_or(text.len());
        let what = text[..end].trim_start_matches("error: ").lines();
        let what: Vec<_> = what.map(str::trim).filter(|it| !it.is_empty()).collect();
        return Failure::new(anyhow!(what.join(" ")), true).say();
    }
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    let safe = lines.join("\n");
    let _ = match safe == text {
        true => write!(anstream::stderr(), "{}", rendered.ansi()),
        false => write!(anstream::stderr(), "{safe}"),
    };
    Exit::Failed
}

/// Replaces the tips of clap that lead nowhere, and adds those that it cannot know.
fn advise(error: &mut clap::Error) {
    let mut tips = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips,
        _ => Vec::new(),
    };
    // No key begins with `-`, and the words of a command need no advice.
    tips.retain(|tip| !tip.to_string().starts_with("to pass"));
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, instead)) = INSTEAD.iter().find(|(word, _)| word == verb)
    {
        tips = vec![StyledStr::from(*instead)];
        error.remove(ContextKind::SuggestedSubcommand);
    }
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

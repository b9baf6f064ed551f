//! `reentry release`: takes a lock away from its holder.

use std::io::{IsTerminal, Write, stderr, stdin};

use anyhow::bail;
use reentry::__admin;
use serde_json::json;

use crate::args::Global;
use crate::commands::show::described;
use crate::exit::Exit;
use crate::text::printable;
use crate::view::LockView;
use crate::{connect, output};

/// Take a lock away from its holder
///
/// The holder learns of it at once if it can be told, else at its next renewal, and may work on until then. What is
/// ended is shown first, and only that is ended: a hold that begins after it was shown is left alone, and of several
/// readers those are ended that are still there. A hold is what the server knows: with Handoff::InProcess the callers
/// of a process follow each other in one hold, and the one that is ended may have entered after it was shown. The exit
/// code is 1 if the lock is free, or nothing of what was shown is there any more, or the answer is no. A hash that is
/// no lock is left as it is: a lock has fields such as this crate and the classic scripts write, `<uuid>:<number>`, and
/// no others but
/// `mode`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The key
    key: String,
    /// Confirm that the lock is released although the holder has not ended: there is no other way from outside
    #[arg(long, required = true)]
    force: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let locks = connect::locks(global).await?;
    let Some(seen) = locks.inspect(&args.key).await? else {
        said(global, &args.key, None)?;
        return Ok(Exit::No);
    };
    let count = seen.holders.len() as u64;
    let lock = LockView::new(args.key.clone(), count, seen.clone());
    if !args.yes && !is_wanted(&lock)? {
        return Ok(Exit::No);
    }
    let ended = __admin::release_seen(&locks, &args.key, &seen).await?;
    said(global, &args.key, Some(&ended))?;
    Ok(match ended[..] {
        [] => Exit::No,
        _ => Exit::Success,
    })
}

/// Asks the person at the terminal.
fn is_wanted(lock: &LockView) -> anyhow::Result<bool> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        bail!("there is no terminal to ask at: confirm with `--yes`");
    }
    let mut err = stderr().lock();
    write!(err, "{}", described(&lock.key, Some(lock)))?;
    write!(
        err,
        "Whoever is inside goes on until it learns of it. End this? [y/N] "
    )?;
    err.flush()?;
    drop(err);
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Prints which holds were ended; `None` means that there was no lock.
fn said(global: &Global, key: &str, ended: Option<&[String]>) -> anyhow::Result<()> {
    let name = printable(key);
    let text = match ended {
        None => format!("{name} is free"),
        Some([]) => format!("{name}: nothing of what was shown is there any more"),
        Some(ended) => {
            let ended: Vec<_> = ended.iter().map(|hold| printable(hold)).collect();
            format!("{name}: ended {}", ended.join(", "))
        }
    };
    let ended = ended.unwrap_or_default();
    let value = json!({ "key": key, "released": !ended.is_empty(), "holders": ended });
    Ok(output::print(global, &Said { text, value })?)
}

/// The result, in words and as JSON.
#[derive(Debug)]
struct Said {
    text: String,
    value: serde_json::Value,
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl serde::Serialize for Said {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

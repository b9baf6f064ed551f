//! `reentry release`: takes a lock away from its holder.

use std::io::{IsTerminal, Write, stderr, stdin};

use anyhow::{anyhow, ensure};
use reentry::__admin;
use serde_json::json;

use crate::args::Global;
use crate::exit::Exit;
use crate::foreign::Foreign;
use crate::text::printable;
use crate::view::LockView;
use crate::{connect, output};

/// Take a lock away from its holder
///
/// If the holder can be reached by a message, it learns of the release immediately. Otherwise it learns of it at its
/// next renewal. It may continue to work until then.
///
/// At a terminal the holds are shown, and released after a confirmation; elsewhere `--yes` is required. Only these holds
/// are ended. A hold that begins later is not affected. Of several readers,
/// those that are still there are ended. A hold is ended as the server knows it. The callers
/// of one process share one hold, one after another. So the caller that loses the lock may have entered after the hold
/// was shown.
///
/// The exit code is 1 if the lock is free, if none of the holds that were shown is left, or if the release was not
/// confirmed.
///
/// What is not a lock is not changed: use DEL. A lock has fields of the form `<uuid>:<number>`, as this crate and the
/// classic scripts write them, and no other field except `mode`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Key of the lock
    key: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    ensure!(args.yes || is_terminal(), UNASKED);
    match release(&args, global).await {
        Err(error) => Err(match Foreign::of(&error, global).await {
            Some(Foreign { what, .. }) => {
                let name = format!("{}{}", global.prefix, args.key);
                anyhow!("`{name}` holds {what}, so it was not changed: to delete it, use DEL")
            }
            None => error,
        }),
        released => released,
    }
}

async fn release(args: &Args, global: &Global) -> anyhow::Result<Exit> {
    let locks = connect::locks(global).await?;
    let Some(seen) = locks.admin().inspect(&args.key).await? else {
        said(global, &args.key, None)?;
        return Ok(Exit::No);
    };
    if !args.yes && !is_wanted(&LockView::of(&args.key, seen.clone()))? {
        return Ok(Exit::No);
    }
    let ended = __admin::release_seen(&locks, &args.key, &seen).await?;
    said(global, &args.key, Some(&ended))?;
    Ok(match ended[..] {
        [] => Exit::No,
        _ => Exit::Success,
    })
}

fn is_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

const UNASKED: &str = "there is no terminal to ask for confirmation: use `--yes`";

/// Asks the person at the terminal.
fn is_wanted(lock: &LockView) -> anyhow::Result<bool> {
    let mut err = stderr().lock();
    write!(err, "{lock}")?;
    write!(
        err,
        "Each holder continues until it learns of the release. Release the lock? [y/N] "
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
        Some([]) => format!("{name}: none of the holds that were shown is left"),
        Some(ended) => {
            let ended: Vec<_> = ended.iter().map(|hold| printable(hold)).collect();
            format!("{name}: ended {}", ended.join(", "))
        }
    };
    let ended = ended.unwrap_or_default();
    let value = json!({ "key": key, "released": !ended.is_empty(), "hold_ids": ended });
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

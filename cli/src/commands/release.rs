//! `reentry release`: takes a lock away from its holder.

use std::io::{IsTerminal, Write, stderr, stdin};

use anyhow::bail;
use reentry::{__admin, LockError};
use serde_json::json;

use crate::args::Global;
use crate::commands::show::described;
use crate::exit::Exit;
use crate::text::printable;
use crate::view::LockView;
use crate::{connect, output};

/// Take a lock away from its holder
///
/// If the holder can be reached by a message, it learns of the release immediately. Otherwise it learns of it at its
/// next renewal. It may continue to work until then.
///
/// The holds are shown first, and only those are ended. A hold that begins later is not affected. Of several readers,
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
    /// Required: confirms that the lock is released although its holder has not finished
    #[arg(long, required = true)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let locks = connect::locks(global).await?;
    let names_way = |error: LockError| no_lock(error, &args.key, global);
    let Some(seen) = locks.admin().inspect(&args.key).await.map_err(names_way)? else {
        said(global, &args.key, None)?;
        return Ok(Exit::No);
    };
    let count = seen.holders.len() as u64;
    let lock = LockView::new(args.key.clone(), count, seen.clone());
    if !args.yes && !is_wanted(&lock)? {
        return Ok(Exit::No);
    }
    let ended = __admin::release_seen(&locks, &args.key, &seen).await;
    let ended = ended.map_err(names_way)?;
    said(global, &args.key, Some(&ended))?;
    Ok(match ended[..] {
        [] => Exit::No,
        _ => Exit::Success,
    })
}

/// The error, with the way to delete what is not a lock.
fn no_lock(error: LockError, key: &str, global: &Global) -> anyhow::Error {
    let error = anyhow::Error::new(error);
    let said = format!("{error:#}");
    if !["NOLOCK", "WRONGTYPE"]
        .iter()
        .any(|code| said.contains(code))
    {
        return error;
    }
    let name = format!("{}{key}", global.prefix);
    error.context(format!(
        "`{name}` is not a lock, so it was not changed: to delete it, use DEL"
    ))
}

/// Asks the person at the terminal.
fn is_wanted(lock: &LockView) -> anyhow::Result<bool> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        bail!("there is no terminal to ask for confirmation: use `--yes`");
    }
    let mut err = stderr().lock();
    write!(err, "{}", described(&lock.key, Some(lock)))?;
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

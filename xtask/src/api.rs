//! `cargo xtask api`: the public surface of `reentry` as text, in `docs/api.txt`, and the rules for its types.
//!
//! | file | what it is |
//! |---|---|
//! | `rustdoc` | the documentation of the crate as JSON, from a stable compiler |
//! | `surface` | the surface as lines, and the difference to the file |
//! | `rules` | the traits and attributes that each public type needs |

mod rules;
pub(crate) mod rustdoc;
mod surface;

use crate::run::root;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;

/// The file with the surface, in the root of the workspace.
const FILE: &str = "docs/api.txt";

/// Runs the task, and prints a message if that was not possible.
pub(crate) fn task(write: bool) -> Result<()> {
    if let Some(reason) = check(write)? {
        bail!("{reason}");
    }
    Ok(())
}

/// Compares the surface with the file, or writes the file. In both cases the types are checked.
///
/// Returns the reason if the check was not possible.
pub(crate) fn check(write: bool) -> Result<Option<String>> {
    let json = match rustdoc::json()? {
        Ok(json) => json,
        Err(reason) => return Ok(Some(reason)),
    };
    let surface = surface::lines(&json)?;
    let file = root().join(FILE);
    if write {
        fs::write(&file, &surface).with_context(|| format!("cannot write {FILE}"))?;
    } else {
        compare(&file, &surface)?;
    }
    let broken = rules::broken(&rustdoc::read(&json)?, &surface);
    ensure!(
        broken.is_empty(),
        "public types lack these requirements:\n{}",
        broken.join("\n")
    );
    Ok(None)
}

fn compare(file: &Path, surface: &str) -> Result<()> {
    // A missing file differs in every line.
    let accepted = fs::read_to_string(file).unwrap_or_default();
    let changes = surface::changes(&accepted, surface);
    if !changes.is_empty() {
        bail!(
            "the public surface is not the one in {FILE} (`-` is only there, `+` is new):\n{}\n\
             if the change is meant, accept it with `cargo xtask api --write`",
            changes.join("\n")
        );
    }
    Ok(())
}

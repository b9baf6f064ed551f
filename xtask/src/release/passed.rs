//! The revision for which the release checks have passed, in a file of the target folder.

use crate::run::git;
use crate::tools::folder;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

/// Records the revision, and what was left out. With uncommitted changes, the checks do not apply to any revision.
pub(super) fn remember(left_out: &[String]) -> Result<()> {
    let head = git(&["rev-parse", "HEAD"]);
    let is_clean = git(&["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
    if let Some(head) = head.filter(|_| is_clean) {
        fs::create_dir_all(folder()?)?;
        fs::write(file()?, format!("{head}\n{}\n", left_out.join("\n")))?;
    }
    Ok(())
}

/// The revision in the first line, and below it what was left out; empty if the checks have not passed.
pub(super) fn said() -> Result<String> {
    Ok(fs::read_to_string(file()?).unwrap_or_default())
}

fn file() -> Result<PathBuf> {
    Ok(folder()?.join("release-checks"))
}

//! A copy of the crate without its tests and without the dependencies of the tests. The versions of the copy can be
//! resolved anew without a change of `Cargo.lock`.

use crate::run::root;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of the crate. A part of each manifest is left out.
const PARTS: [&str; 7] = [
    "Cargo.toml",
    "README.md",
    "docs",
    "lua",
    "src",
    "macros/Cargo.toml",
    "macros/src",
];

/// Puts the copy into this folder, and replaces an older one. The build output in the folder is kept.
pub(super) fn copy(to: &Path) -> Result<PathBuf> {
    let from = root();
    for part in PARTS {
        let (from, to) = (from.join(part), to.join(part));
        // Otherwise a renamed file would be there twice.
        if to.is_dir() {
            fs::remove_dir_all(&to)?;
        }
        copy_all(&from, &to).with_context(|| format!("cannot copy {part}"))?;
    }
    let _ = fs::remove_file(to.join("Cargo.lock"));
    Ok(to.to_owned())
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy_all(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("no folder")?)?;
    if from.ends_with("Cargo.toml") {
        fs::write(to, bare(&fs::read_to_string(from)?))?;
    } else {
        fs::copy(from, to)?;
    }
    Ok(())
}

/// The manifest without the dependencies of the tests, and with the macros as its only member.
fn bare(manifest: &str) -> String {
    const DROPPED: [&str; 3] = ["[dev-dependencies]", "[[example]]", "[[bench]]"];
    let mut bare = String::new();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let is_member = section == "[workspace]" && line != section;
        if !is_member && !DROPPED.contains(&section) {
            bare.push_str(line);
            bare.push('\n');
            if line == "[workspace]" {
                bare.push_str("members = [\"macros\"]\n\n");
            }
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_manifest_has_no_part_of_the_tests() {
        let manifest = "[workspace]\nmembers = [\"a\"]\n[package]\nname = \"b\"\n\
                        [dev-dependencies]\nc = \"1\"\n[[bench]]\nname = \"d\"\n[lints]\n";
        let expected = "[workspace]\nmembers = [\"macros\"]\n\n[package]\nname = \"b\"\n[lints]\n";
        assert_eq!(bare(manifest), expected);
    }
}

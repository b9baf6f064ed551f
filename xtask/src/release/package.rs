//! The crates as they are published, unpacked into their own workspace.
//!
//! The folder has no other file of the repository. `reentry` finds its macros even if no registry has them.

use crate::run::{cargo, root, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages, each one after its dependencies.
pub(super) const PACKAGES: [&str; 3] = ["reentry-macros", "reentry", "reentry-cli"];

const WORKSPACE: &str = "\
[workspace]
resolver = \"3\"
members = [\"reentry\", \"reentry-macros\", \"reentry-cli\"]
default-members = [\"reentry\", \"reentry-macros\"]

[patch.crates-io]
reentry = { path = \"reentry\" }
reentry-macros = { path = \"reentry-macros\" }

";

/// Packages the crates and unpacks them into this folder, and replaces older ones.
pub(super) fn unpack(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let mut package = cargo(&["package", "--quiet", "--no-verify", "--allow-dirty"]);
    for name in PACKAGES {
        package.args(["--package", name]);
    }
    run(package.arg("--target-dir").arg(folder))?;
    let to = folder.join("unpacked");
    for file in fs::read_dir(folder.join("package"))? {
        let file = file?;
        let named = file.file_name().to_string_lossy().into_owned();
        let candidates = PACKAGES.into_iter().filter(|name| named.starts_with(name));
        let name = candidates.max_by_key(|name| name.len());
        if let Some(name) = name.filter(|_| named.ends_with(".crate")) {
            fs::create_dir_all(to.join(name))?;
            let mut tar = Command::new("tar");
            // Without `-m`, all files would keep the same date for ever, and cargo would rebuild none of them.
            tar.args(["-x", "-z", "-m", "--strip-components=1", "-f"]);
            run(tar.arg(file.path()).arg("-C").arg(to.join(name)))?;
        }
    }
    let root = root();
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    fs::write(
        to.join("Cargo.toml"),
        WORKSPACE.to_owned() + &profiles(&manifest),
    )?;
    fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).context("no Cargo.lock")?;
    Ok(to)
}

/// The profiles of a manifest. With equal profiles, a finished build can be reused.
fn profiles(manifest: &str) -> String {
    let mut profiles = String::new();
    let mut is_profile = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.");
        }
        if is_profile {
            profiles.push_str(line);
            profiles.push('\n');
        }
    }
    profiles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_taken_over_and_nothing_else() {
        let manifest = "[package]\nname = \"a\"\n[profile.dev]\ndebug = 1\n\n\
                        [profile.dev.package.b]\nopt-level = 2\n[features]\nc = []\n";
        let expected = "[profile.dev]\ndebug = 1\n\n[profile.dev.package.b]\nopt-level = 2\n";
        assert_eq!(profiles(manifest), expected);
    }
}

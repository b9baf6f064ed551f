//! `cargo xtask release`: whether everything is ready for a release, and the commands that publish it. It publishes
//! nothing.
//!
//! | file | what it is |
//! |---|---|
//! | `manifests` | the versions and the repository in the manifests |
//! | `changelog` | the section of the version in the changelog |
//! | `names` | the names of the crates in the registry |
//! | `found` | what a check has found |

mod changelog;
mod found;
mod manifests;
mod names;

use super::package::{PACKAGES, unpack};
use super::passed;
use crate::run::{git, step};
use crate::tools::folder;
use anyhow::{Result, ensure};
use found::Found;
use std::fs;

type Check = (&'static str, fn(&str) -> Result<Found>);

const CHECKS: [Check; 8] = [
    ("the tree is clean", tree),
    ("the versions are equal", manifests::versions),
    ("the changelog has the version", changelog::section),
    ("the tag is free", tag),
    ("the repository is known", manifests::repository),
    ("the names belong to this repository", names::owned),
    ("the crates can be packaged", packages),
    ("the release checks have passed", checks),
];

/// Runs all checks, even if one finds something missing, and prints the commands of the release.
pub(crate) fn check() -> Result<()> {
    let version = manifests::version()?;
    let mut missing = Vec::new();
    for (name, work) in CHECKS {
        // A check that fails has found nothing, and the others are still run.
        match step(name, || work(&version)) {
            Ok(Found::Ready(seen)) => eprintln!("ready: {seen}"),
            Ok(Found::Missing(advice)) => missing.push(format!("- {name}: no. {advice}")),
            Err(error) => missing.push(format!("- {name}: unknown. {error:#}")),
        }
    }
    println!("{}", commands(&version));
    ensure!(
        missing.is_empty(),
        "{version} is not ready:\n{}",
        missing.join("\n")
    );
    Ok(())
}

/// The commands of a release, in their order. A crate is published after its dependencies.
fn commands(version: &str) -> String {
    let publish = |name| format!("cargo publish --locked --package {name}\n");
    let publish: String = PACKAGES.into_iter().map(publish).collect();
    format!(
        "\nA release of {version} is, when all is ready:\n\n{publish}\
         git tag --annotate v{version} --message 'reentry {version}'\n\
         git push origin v{version}\n"
    )
}

fn tree(_: &str) -> Result<Found> {
    let Some(changes) = git(&["status", "--porcelain"]) else {
        return Ok(Found::Missing("Run the release in a git clone.".to_owned()));
    };
    Ok(match changes.lines().count() {
        0 => Found::Ready("nothing is uncommitted".to_owned()),
        many => Found::Missing(format!(
            "Commit or remove the {many} files that `git status` shows."
        )),
    })
}

fn tag(version: &str) -> Result<Found> {
    let name = format!("v{version}");
    let reference = format!("refs/tags/{name}^{{commit}}");
    let tagged = git(&["rev-parse", "--verify", "--quiet", &reference]);
    Ok(
        if tagged.is_none() || tagged == git(&["rev-parse", "HEAD"]) {
            Found::Ready(format!("no other commit has the tag {name}"))
        } else {
            Found::Missing(format!(
                "Another commit has the tag {name}: increase `version` in Cargo.toml."
            ))
        },
    )
}

fn packages(_: &str) -> Result<Found> {
    let folder = folder()?.join("published");
    unpack(&folder)?;
    let mut seen = Vec::new();
    for file in fs::read_dir(folder.join("package"))? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".crate") {
            seen.push(format!(
                "{name} of {} KiB",
                file.metadata()?.len().div_ceil(1024)
            ));
        }
    }
    seen.sort();
    Ok(Found::Ready(seen.join(", ")))
}

fn checks(_: &str) -> Result<Found> {
    let said = passed::said()?;
    Ok(passed_for(&said, git(&["rev-parse", "HEAD"]).as_deref()))
}

/// Whether the record of the release checks is for this revision.
fn passed_for(said: &str, head: Option<&str>) -> Found {
    let mut lines = said.lines();
    if head.is_none() || lines.next() != head {
        return Found::Missing(
            "Run `cargo xtask release-checks` on this revision, without uncommitted changes."
                .to_owned(),
        );
    }
    let left_out: String = lines.map(|line| format!("\n{line}")).collect();
    Found::Ready(format!("they have passed for this revision{left_out}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_published_after_those_that_it_needs() {
        let commands = commands("1.2.3");
        let at = |text| commands.find(text).unwrap();
        assert!(at("--package reentry-macros\n") < at("--package reentry\n"));
        assert!(at("--package reentry\n") < at("--package reentry-cli\n"));
        assert!(at("--package reentry-cli\n") < at("git tag --annotate v1.2.3"));
    }

    #[test]
    fn release_checks_count_for_their_revision_alone() {
        let said = "abc\nNOT RUN: oldest compiler: none";
        assert!(
            matches!(passed_for(said, Some("abc")), Found::Ready(seen) if seen.contains("NOT RUN"))
        );
        assert!(matches!(passed_for(said, Some("def")), Found::Missing(_)));
        assert!(matches!(passed_for("", Some("abc")), Found::Missing(_)));
        assert!(matches!(passed_for("", None), Found::Missing(_)));
    }
}

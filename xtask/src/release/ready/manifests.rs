//! The versions and the repository in the manifests.

use super::found::Found;
use crate::release::package::PACKAGES;
use crate::run::{cargo, git, read};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The placeholder for the owner in the addresses, until there is a public repository.
const PLACEHOLDER: &str = "github.com/OWNER/";

/// The file that names the placeholder without using it.
const NAMES_IT: &str = "xtask/src/release/ready/manifests.rs";

/// The version of the crate.
pub(super) fn version() -> Result<String> {
    let metadata = metadata()?;
    let reentry = package(&metadata, "reentry")?;
    let version = reentry["version"].as_str();
    Ok(version.context("`reentry` has no version")?.to_owned())
}

pub(super) fn versions(version: &str) -> Result<Found> {
    let wrong = wrong(&metadata()?, version)?;
    Ok(if wrong.is_empty() {
        Found::Ready(format!(
            "all crates are {version}, and require each other exactly"
        ))
    } else {
        Found::Missing(format!("Change the manifests: {}.", wrong.join(", ")))
    })
}

pub(super) fn repository(_: &str) -> Result<Found> {
    let files = git(&["ls-files"]).context("git names no files")?;
    let texts = files
        .lines()
        .filter_map(|file| Some((file, read(file).ok()?)));
    let found = placeholders(texts);
    Ok(if found.is_empty() {
        Found::Ready("no file has a placeholder".to_owned())
    } else {
        Found::Missing(format!(
            "Replace `OWNER` by the owner of the repository in {}.",
            found.join(", ")
        ))
    })
}

/// The crates that do not have this version, and the requirements between the crates that are not exactly this version.
/// The command line uses functions that are not public, and so do the expanded macros.
fn wrong(metadata: &Value, version: &str) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for name in PACKAGES {
        let package = package(metadata, name)?;
        let own = package["version"].as_str().unwrap_or_default();
        if own != version {
            wrong.push(format!("{name} is {own}"));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let of = dependency["name"].as_str().unwrap_or_default();
            let required = dependency["req"].as_str().unwrap_or_default();
            if PACKAGES.contains(&of) && required != format!("={version}") {
                wrong.push(format!(
                    "{name} requires {of} {required} instead of ={version}"
                ));
            }
        }
    }
    Ok(wrong)
}

/// The files with the placeholder.
fn placeholders<'a>(files: impl Iterator<Item = (&'a str, String)>) -> Vec<&'a str> {
    let found = files.filter(|(name, text)| *name != NAMES_IT && text.contains(PLACEHOLDER));
    found.map(|(name, _)| name).collect()
}

fn metadata() -> Result<Value> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"]).output()?;
    ensure!(output.status.success(), "`cargo metadata` failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn package<'a>(metadata: &'a Value, name: &str) -> Result<&'a Value> {
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let found = packages.find(|package| package["name"] == name);
    found.with_context(|| format!("the package `{name}` does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata_with(cli: &str, required: &str) -> Value {
        json!({"packages": [
            {"name": "reentry-macros", "version": "1.2.3", "dependencies": [{"name": "syn", "req": "^3"}]},
            {"name": "reentry", "version": "1.2.3", "dependencies": [{"name": "reentry-macros", "req": "=1.2.3"}]},
            {"name": "reentry-cli", "version": cli, "dependencies": [{"name": "reentry", "req": required}]},
        ]})
    }

    #[test]
    fn equal_versions_that_require_each_other_are_right() {
        let wrong = wrong(&metadata_with("1.2.3", "=1.2.3"), "1.2.3").unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn each_other_version_and_each_open_requirement_is_named() {
        let wrong = wrong(&metadata_with("1.2.2", "^1.2.3"), "1.2.3").unwrap();
        let expected = [
            "reentry-cli is 1.2.2",
            "reentry-cli requires reentry ^1.2.3 instead of =1.2.3",
        ];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn the_crates_of_this_workspace_have_one_version() {
        let wrong = wrong(&metadata().unwrap(), &version().unwrap()).unwrap();
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn a_placeholder_is_found_in_any_file() {
        let files = [
            (
                "Cargo.toml",
                format!("repository = \"https://{PLACEHOLDER}reentry\""),
            ),
            (
                "README.md",
                "https://github.com/somebody/reentry".to_owned(),
            ),
            (NAMES_IT, PLACEHOLDER.to_owned()),
        ];
        assert_eq!(placeholders(files.into_iter()), ["Cargo.toml"]);
    }
}

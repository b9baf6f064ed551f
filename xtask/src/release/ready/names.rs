//! The names of the crates in the registry. Before the first release they must be free. Then they must belong to this
//! repository.

use super::found::Found;
use crate::release::package::PACKAGES;
use crate::run::cargo;
use anyhow::Result;
use std::env;

pub(super) fn owned(_: &str) -> Result<Found> {
    let mut wrong = Vec::new();
    let mut free = Vec::new();
    for name in PACKAGES {
        let mut info = cargo(&["info", "--registry", "crates-io", name]);
        // Inside the workspace, cargo would show its own package.
        let output = info.current_dir(env::temp_dir()).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        match answer(output.status.success(), &said, &errors) {
            Answer::Free => free.push(name),
            Answer::Published(repository) if repository == env!("CARGO_PKG_REPOSITORY") => {}
            Answer::Published(repository) => {
                wrong.push(format!("{name} is already published, from {repository}."));
            }
            Answer::Unknown => wrong.push(format!(
                "The registry returned no information about {name}."
            )),
        }
    }
    Ok(match (wrong.is_empty(), free.is_empty()) {
        (true, true) => Found::Ready("they are published from this repository".to_owned()),
        (true, false) => Found::Ready(format!("still free: {}", free.join(", "))),
        (false, _) => Found::Missing(format!(
            "{} An owner of the names must publish: see `cargo owner --list`.",
            wrong.join(" ")
        )),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Free,
    /// The repository that the published manifest names.
    Published(String),
    Unknown,
}

/// The answer of `cargo info`.
fn answer(success: bool, said: &str, errors: &str) -> Answer {
    if success {
        let mut lines = said.lines();
        let repository = lines.find_map(|line| line.strip_prefix("repository: "));
        return Answer::Published(repository.unwrap_or("no repository").trim().to_owned());
    }
    match errors.contains("could not find") {
        true => Answer::Free,
        false => Answer::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_published_or_unknown() {
        let free = "error: could not find `reentry` in registry `https://index`";
        assert_eq!(answer(false, "", free), Answer::Free);
        let said = "reentry #redis\nversion: 0.1.0\nrepository: https://host/owner/reentry\n";
        let published = Answer::Published("https://host/owner/reentry".to_owned());
        assert_eq!(answer(true, said, ""), published);
        assert_eq!(answer(false, "", "error: no network"), Answer::Unknown);
    }
}

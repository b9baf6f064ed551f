//! The surface as lines, and the difference to the lines that were accepted.

use anyhow::Result;
use public_api::Builder;
use std::collections::BTreeSet;
use std::path::Path;

/// The items that `pin-project` generates for a type. Their private names change with its version.
const GENERATED: &str = "pin_project::__private";

/// The surface in this file of rustdoc, one item per line. Blanket implementations and implementations of auto traits
/// are left out.
pub(super) fn lines(json: &Path) -> Result<String> {
    let api = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()?;
    let surface = api.to_string();
    let lines = surface.lines().filter(|line| !line.contains(GENERATED));
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

/// The lines that only one of the two surfaces has: first the removed ones, then the new ones.
pub(super) fn changes(accepted: &str, surface: &str) -> Vec<String> {
    let gone = only(accepted, surface).map(|line| format!("- {line}"));
    let new = only(surface, accepted).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

fn only<'a>(one: &'a str, other: &'a str) -> impl Iterator<Item = &'a str> {
    let known: BTreeSet<_> = other.lines().collect();
    one.lines().filter(move |line| !known.contains(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_as_what_was_removed_and_what_is_new() {
        let changes = changes("pub fn a()\npub fn b()\n", "pub fn b(u8)\npub fn a()\n");
        assert_eq!(changes, ["- pub fn b()", "+ pub fn b(u8)"]);
    }

    #[test]
    fn a_surface_does_not_differ_from_itself() {
        assert!(changes("pub mod a\n", "pub mod a\n").is_empty());
    }
}

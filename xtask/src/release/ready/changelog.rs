//! The section of the version in the changelog.

use super::found::Found;
use crate::run::read;
use anyhow::Result;

pub(super) fn section(version: &str) -> Result<Found> {
    Ok(section_of(&read("CHANGELOG.md")?, version))
}

fn section_of(changelog: &str, version: &str) -> Found {
    let mut headings = changelog.lines().filter(|line| line.starts_with("## "));
    let dated = headings.find_map(|line| line.strip_prefix(&format!("## {version} - ")));
    let Some(date) = dated.filter(|date| is_date(date)) else {
        return Found::Missing(format!(
            "In CHANGELOG.md, write `## {version} - YYYY-MM-DD` in the place of `## Unreleased`, and an empty \
             `## Unreleased` above it."
        ));
    };
    let unreleased = changelog
        .split("\n## ")
        .find(|it| it.starts_with("Unreleased"));
    if unreleased.is_some_and(|it| it.lines().any(|line| line.starts_with("- "))) {
        return Found::Missing(format!(
            "`## Unreleased` in CHANGELOG.md is not empty: move its lines to `## {version} - {date}`."
        ));
    }
    Found::Ready(format!("{version} has the date {date}"))
}

/// Whether a text looks like `2026-01-31`.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    parts.iter().all(is_number) && parts.iter().map(|part| part.len()).eq([4, 2, 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_a_dated_section() {
        let changelog = "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-31\n\n- a\n";
        assert!(matches!(section_of(changelog, "1.2.3"), Found::Ready(_)));
        assert!(matches!(section_of(changelog, "1.2.4"), Found::Missing(_)));
        let undated = "## 1.2.3 - soon\n";
        assert!(matches!(section_of(undated, "1.2.3"), Found::Missing(_)));
    }

    #[test]
    fn what_is_unreleased_must_be_moved() {
        let changelog = "\n## Unreleased\n\n### Added\n- b\n\n## 1.2.3 - 2026-01-31\n\n- a\n";
        assert!(
            matches!(section_of(changelog, "1.2.3"), Found::Missing(it) if it.contains("not empty"))
        );
    }
}

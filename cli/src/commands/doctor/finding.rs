//! The findings, and their severity.

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::text::{count, printable};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// The state matches the recommendation in the documentation of the crate.
    Ok,
    /// Locks work, but something is weaker than it could be.
    Warn,
    /// Locks do not work, or may be lost even if nothing fails.
    Fail,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) check: &'static str,
    /// The fact, and why it matters.
    pub(crate) what: String,
    /// The advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self {
            level: Level::Ok,
            check,
            what: what.into(),
            advice: None,
        }
    }

    pub(crate) fn warn(
        check: &'static str,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warn,
            advice: Some(advice.into()),
            ..Self::ok(check, what)
        }
    }

    pub(crate) fn fail(
        check: &'static str,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Fail,
            ..Self::warn(check, what, advice)
        }
    }
}

/// The findings at one place: a server, or all of them together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Section {
    /// The place: an address, or `all servers`.
    pub(crate) at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    pub(crate) findings: Vec<Finding>,
}

/// The findings of all places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub(crate) worst: Level,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    pub(crate) fn new(sections: Vec<Section>) -> Self {
        let levels = sections.iter().flat_map(|section| &section.findings);
        Self {
            worst: levels.map(|it| it.level).max().unwrap_or(Level::Ok),
            sections,
        }
    }

    fn count(&self, level: Level) -> u64 {
        let findings = self.sections.iter().flat_map(|section| &section.findings);
        findings.filter(|finding| finding.level == level).count() as u64
    }
}

impl Level {
    fn shown(self) -> (&'static str, Style) {
        let colored = |color: AnsiColor| Style::new().bold().fg_color(Some(color.into()));
        match self {
            Self::Ok => ("ok  ", colored(AnsiColor::Green)),
            Self::Warn => ("warn", colored(AnsiColor::Yellow)),
            Self::Fail => ("FAIL", colored(AnsiColor::Red)),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            write!(f, "{}", printable(&section.at))?;
            if let Some(role) = section.role {
                write!(f, ", {role}")?;
            }
            writeln!(f)?;
            for finding in &section.findings {
                let (name, style) = finding.level.shown();
                let what = printable(&finding.what);
                writeln!(f, "  {style}{name}{style:#}  {:12} {what}", finding.check)?;
                if let Some(advice) = &finding.advice {
                    writeln!(f, "        {:12} -> {}", "", printable(advice))?;
                }
            }
        }
        let (warn, fail) = (self.count(Level::Warn), self.count(Level::Fail));
        writeln!(
            f,
            "{} ok, {}, {}",
            self.count(Level::Ok),
            count(warn, "warning"),
            count(fail, "failure")
        )
    }
}

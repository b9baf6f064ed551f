//! The documentation of the crate as JSON, from a stable compiler.

use crate::run::{cargo, run};
use crate::tools::target;
use anyhow::{Context, Result};
use rustdoc_types::{Crate, FORMAT_VERSION};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The variable that makes this program act as the rustdoc of cargo.
const AS_RUSTDOC: &str = "REENTRY_XTASK_AS_RUSTDOC";

/// Writes the documentation and returns its file, or the reason why this compiler cannot.
pub(super) fn json() -> Result<Result<PathBuf, String>> {
    // The members and features of `cargo xtask ci`, so that no dependency is checked again. The items in
    // `__admin` are hidden, so they are not in the documentation.
    let all = ["doc", "--no-deps", "--workspace", "--lib", "--all-features"];
    let mut doc = cargo(&all);
    doc.env("RUSTDOC", env::current_exe()?).env(AS_RUSTDOC, "1");
    doc.env(
        "RUSTDOCFLAGS",
        "-Z unstable-options --output-format json --cap-lints allow",
    );
    run(&mut doc)?;
    let file = target()?.join("doc/reentry.json");
    let format = format(&fs::read_to_string(&file)?)?;
    if format == FORMAT_VERSION {
        return Ok(Ok(file));
    }
    Ok(Err(format!(
        "the JSON of this compiler has format {format}, but `public-api` in xtask/Cargo.toml reads format {FORMAT_VERSION}"
    )))
}

/// Runs rustdoc instead of this program, if cargo has started this program as its rustdoc.
///
/// The variable that unlocks JSON on a stable compiler is set only here. If it were set for cargo, cargo would rebuild
/// the dependencies whose build scripts read it.
pub(crate) fn run_as_rustdoc() -> Option<ExitCode> {
    env::var_os(AS_RUSTDOC)?;
    let args: Vec<_> = env::args_os().skip(1).collect();
    // The other members are only needed for the features of the dependencies.
    if !args
        .windows(2)
        .any(|two| two == ["--crate-name", "reentry"])
    {
        return Some(ExitCode::SUCCESS);
    }
    let mut rustdoc = Command::new("rustdoc");
    rustdoc.args(args);
    let status = rustdoc.env("RUSTC_BOOTSTRAP", "1").status();
    let code = status.ok().and_then(|status| status.code());
    let code = code.and_then(|code| u8::try_from(code).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

pub(super) fn read(json: &Path) -> Result<Crate> {
    Ok(serde_json::from_str(&fs::read_to_string(json)?)?)
}

fn format(json: &str) -> Result<u32> {
    let json: serde_json::Value = serde_json::from_str(json)?;
    let format = json.get("format_version").and_then(|it| it.as_u64());
    let format = format.context("the JSON of rustdoc has no `format_version`")?;
    Ok(u32::try_from(format)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_version_is_read_from_any_output() {
        assert_eq!(format(r#"{"format_version":99,"x":[]}"#).unwrap(), 99);
        assert!(format("{}").is_err());
    }
}

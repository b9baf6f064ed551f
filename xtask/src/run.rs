//! Running other programs, with their own output passed through.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// `cargo` with these words, in the workspace's root.
pub(crate) fn cargo(words: &[&str]) -> Command {
    // Cargo tells what it runs which cargo it is, so the toolchain stays the same.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words).current_dir(root());
    command
}

/// Says the command line, runs it, and fails with that line if the program does.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Does a part of a task under a heading, and says how long it took.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    eprintln!("\n== {name} ==");
    let start = Instant::now();
    let output = work().with_context(|| format!("the step `{name}` failed"))?;
    eprintln!("== {name}: {:.1?} ==", start.elapsed());
    Ok(output)
}

/// Whether a program of this name is on the PATH.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The command as one would type it, `cargo` by its short name.
fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_string_lossy();
        Some(format!("{}={value}", name.to_string_lossy()))
    });
    let program = Path::new(command.get_program()).file_name();
    let program = program.unwrap_or_default().to_string_lossy().into_owned();
    let words = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned());
    let all: Vec<String> = variables.chain([program]).chain(words).collect();
    all.join(" ")
}

fn root() -> PathBuf {
    // The manifest of this crate lies one folder below.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_line() {
        let mut command = Command::new("/bin/sh");
        command.env("A", "b").args(["-c", "exit 3"]);
        let error = run(&mut command).unwrap_err().to_string();
        assert!(error.starts_with("`A=b sh -c exit 3` failed"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_installed() {
        assert!(installed("sh"));
        assert!(!installed("no-such-program"));
    }
}

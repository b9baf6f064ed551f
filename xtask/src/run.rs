//! Runs of other programs, with their output passed through.

use anyhow::{Context, Result, bail, ensure};
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// `cargo` with these arguments, in the root of the workspace.
pub(crate) fn cargo(words: &[&str]) -> Command {
    // Cargo passes its own path to the programs that it runs, so the toolchain stays the same.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words).current_dir(root());
    // Cargo describes this package in variables. Build scripts that read these variables would run again after each
    // change between `cargo xtask` and a plain `cargo`, and their dependents would be rebuilt.
    for (name, _) in std::env::vars_os() {
        let is_own = |prefix| name.to_string_lossy().starts_with(prefix);
        if is_own("CARGO_PKG_") || is_own("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The output of git; `None` if git fails.
pub(crate) fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).current_dir(root()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Runs clippy with these arguments, and denies warnings.
pub(crate) fn clippy(what: &[&str]) -> Result<()> {
    let mut command = cargo(&["clippy"]);
    run(command.args(what).args(["--", "-D", "warnings"]))
}

/// Prints the command line and runs it. If the program fails, the error is that line.
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

/// Runs each of these programs, even if another fails. The error has the last lines of the failed ones.
pub(crate) fn run_to_the_end(commands: &mut [Command]) -> Result<()> {
    all_of(commands.iter_mut().map(run_and_listen))
}

/// Fails if any of these failed, with the errors of all of them.
pub(crate) fn all_of(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let failures = results.into_iter().filter_map(Result::err);
    let failures: Vec<_> = failures.map(|failure| format!("{failure:#}")).collect();
    ensure!(failures.is_empty(), failures.join("\n"));
    Ok(())
}

/// Runs a program as [`run`] does. The error also has the last lines of the program, starting from its last line that
/// begins with `error`. There cargo names the failed test binaries.
fn run_and_listen(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ {line}");
    if io::stderr().is_terminal() {
        // Because of the pipe, cargo cannot detect the terminal.
        command.env("CARGO_TERM_COLOR", "always");
    }
    let cannot_run = || format!("cannot run `{line}`");
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .with_context(cannot_run)?;
    let mut all = Vec::new();
    if let Some(errors) = child.stderr.take() {
        for said in BufReader::new(errors).split(b'\n') {
            let said = said?;
            let said = String::from_utf8_lossy(&said).into_owned();
            eprintln!("{said}");
            all.push(said);
        }
    }
    let closing = closing(all.iter().map(String::as_str));
    let status = child.wait().with_context(cannot_run)?;
    ensure!(status.success(), "`{line}` failed ({status}){closing}");
    Ok(())
}

/// The last lines of a program, from its last line that begins with `error` on; empty if there is none.
pub(crate) fn closing<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut closing = String::new();
    for said in lines {
        if is_error(said) {
            closing.clear();
        }
        if is_error(said) || !closing.is_empty() {
            closing = format!("{closing}\n{said}");
        }
    }
    closing
}

/// Whether a line of cargo begins an error, in colour or not.
fn is_error(line: &str) -> bool {
    let mut parts = line.split('\u{1b}');
    let before = parts.next().unwrap_or_default();
    // An escape up to the letter `m` is a colour.
    let after = parts.filter_map(|part| part.split_once('m'));
    let plain: String = [before].into_iter().chain(after.map(|it| it.1)).collect();
    plain.starts_with("error")
}

/// Runs a part of a task under a heading, and prints how long it took.
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

/// The command as a user would type it, with the short name `cargo`.
pub(crate) fn line(command: &Command) -> String {
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

/// The text of a file of the workspace.
pub(crate) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // The manifest of this crate is one folder below.
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

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn all_commands_are_run_and_each_failure_is_told_with_its_closing_lines() {
        let first = "echo error: of the first >&2; echo then >&2; exit 3";
        let last = "echo error: early >&2; printf 'x\n\u{1b}[1m\u{1b}[91merror\u{1b}[0m: late\n' >&2; exit 4";
        let mut commands = [sh(first), sh("exit 0"), sh(last)];
        let told = run_to_the_end(&mut commands).unwrap_err().to_string();
        let (first, last) = told.split_once("exit status: 4").unwrap();
        assert!(
            first.contains("(exit status: 3)\nerror: of the first\nthen\n"),
            "{told}"
        );
        assert!(last.contains("late") && !last.contains("early"), "{told}");
        assert!(run_to_the_end(&mut [sh("exit 0"), sh("exit 0")]).is_ok());
    }

    #[test]
    fn a_missing_program_counts_as_not_installed() {
        assert!(installed("sh"));
        assert!(!installed("no-such-program"));
    }
}

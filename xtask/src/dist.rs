//! `cargo xtask dist`: the command `reentry` as files for installation: a static program, and a Debian package.

use crate::run::{all_of, cargo, git, installed, run, step};
use crate::tools::{self, CARGO_DEB};
use anyhow::{Context, Result, bail, ensure};
use std::env::consts::ARCH;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shells for which the package has completions, with the names of their files there.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "reentry"),
    ("zsh", "_reentry"),
    ("fish", "reentry.fish"),
];

/// Builds both, even if one of them fails.
pub(crate) fn all() -> Result<()> {
    let to = tools::target()?.join("dist");
    fs::create_dir_all(&to)?;
    all_of([
        step("static program", || fixed(&to)),
        step("Debian package", || debian(&to)),
    ])?;
    eprintln!("\nall files are in {}", to.display());
    Ok(())
}

/// The program without any library of the system. It is linked to musl. With glibc, a static program could not resolve
/// host names on a system with another version of glibc.
fn fixed(to: &Path) -> Result<()> {
    let target = musl(ARCH);
    if !libraries(&target)?.is_dir() {
        let add = run(Command::new("rustup").args(["target", "add", &target]));
        add.with_context(|| {
            format!("the static program needs the target {target}: install it with `rustup target add {target}`")
        })?;
    }
    ensure!(
        installed("musl-gcc"),
        "`ring` needs a C compiler for musl: install `musl-gcc`, for example with `apt-get install musl-tools`"
    );
    run(build().args(["--target", &target]))?;
    let built = tools::target()?.join(&target).join("release/reentry");
    ensure!(
        is_static(&fs::read(&built)?),
        "{} requires a dynamic linker",
        built.display()
    );
    let program = to.join(format!("reentry-{target}"));
    fs::copy(built, &program)?;
    run(Command::new(program).arg("--version"))
}

/// The package with the program, its man pages and its completions. It names the libraries that the program needs.
fn debian(to: &Path) -> Result<()> {
    run(&mut build())?;
    let release = tools::target()?.join("release");
    let program = release.join("reentry");
    let (pages, completions) = (release.join("man"), release.join("completions"));
    for folder in [&pages, &completions] {
        // Otherwise the page of a removed subcommand would be packaged, too.
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    run(Command::new(&program).arg("man").arg(&pages))?;
    for (shell, file) in SHELLS {
        let file = File::create(completions.join(file))?;
        run(Command::new(&program)
            .args(["completions", shell])
            .stdout(file))?;
    }
    let mut deb = CARGO_DEB.command()?;
    deb.args(["deb", "--no-build", "--package", "reentry-cli"]);
    if let Some(maintainer) = maintainer() {
        deb.args(["--maintainer", &maintainer]);
    }
    run(deb.arg("--output").arg(to))
}

fn build() -> Command {
    cargo(&["build", "--release", "--locked", "--package", "reentry-cli"])
}

/// The Rust target for static programs on this architecture.
fn musl(architecture: &str) -> String {
    format!("{architecture}-unknown-linux-musl")
}

/// The folder of the standard library for a target.
fn libraries(target: &str) -> Result<PathBuf> {
    let mut rustc = Command::new("rustc");
    let output = rustc
        .args(["--print", "target-libdir", "--target", target])
        .output()?;
    if !output.status.success() {
        bail!("rustc does not support the target {target}");
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Whether a program of 64 bits names no interpreter, which would be the dynamic linker.
fn is_static(elf: &[u8]) -> bool {
    const INTERPRETER: u64 = 3;
    let number = |at: usize, bytes: usize| {
        let bytes = elf.get(at..at + bytes)?;
        let digits = bytes.iter().rev();
        Some(digits.fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte)))
    };
    let headers = || {
        let start = usize::try_from(number(32, 8)?).ok()?;
        let (size, count) = (usize::try_from(number(54, 2)?).ok()?, number(56, 2)?);
        let count = usize::try_from(count).ok()?;
        let kinds = (0..count).map(|header| number(start.checked_add(header * size)?, 4));
        kinds.collect::<Option<Vec<_>>>()
    };
    elf.starts_with(b"\x7fELF") && headers().is_some_and(|kinds| !kinds.contains(&INTERPRETER))
}

/// The name and the address of the packager, from the configuration of git.
fn maintainer() -> Option<String> {
    let (name, address) = (
        git(&["config", "user.name"])?,
        git(&["config", "user.email"])?,
    );
    Some(format!("{name} <{address}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of 64 bits with headers of these kinds.
    fn program(kinds: &[u32]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            elf.extend(kind.to_le_bytes());
            elf.extend([0; 52]);
        }
        elf
    }

    #[test]
    fn a_static_program_asks_for_no_dynamic_linker() {
        assert!(is_static(&program(&[6, 1, 1])));
        assert!(!is_static(&program(&[6, 3, 1])));
    }

    #[test]
    fn what_is_no_program_is_not_static() {
        assert!(!is_static(b"#!/bin/sh"));
        assert!(!is_static(b"\x7fELF"));
        let cut = program(&[1, 1]);
        assert!(!is_static(&cut[..100]));
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn this_program_is_not_static() {
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&program));
    }

    #[test]
    fn each_completion_is_a_file_of_the_package() {
        let manifest = include_str!("../../cli/Cargo.toml");
        for (_, file) in SHELLS {
            let line = format!("[\"target/release/completions/{file}\", ");
            assert!(manifest.contains(&line), "{line}");
        }
    }
}

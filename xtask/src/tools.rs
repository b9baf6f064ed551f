//! The external programs for hygiene and release checks. An installed program is used. A missing one is installed into
//! the target folder.

use crate::run::{cargo, installed, root, run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, and the source from which a missing one is installed.
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
    version: &'static str,
    /// Whether `xtask/hygiene.txt` lists the program, so that nothing needs to be compiled.
    prebuilt: bool,
}

pub(crate) const TYPOS: Tool = Tool {
    program: "typos",
    package: "typos-cli",
    version: "1.52.0",
    prebuilt: true,
};

pub(crate) const CARGO_DENY: Tool = Tool {
    program: "cargo-deny",
    package: "cargo-deny",
    version: "0.20.2",
    prebuilt: true,
};

pub(crate) const CARGO_SHEAR: Tool = Tool {
    program: "cargo-shear",
    package: "cargo-shear",
    version: "1.14.0",
    prebuilt: true,
};

pub(crate) const CARGO_SEMVER_CHECKS: Tool = Tool {
    program: "cargo-semver-checks",
    package: "cargo-semver-checks",
    version: "0.51.0",
    prebuilt: false,
};

pub(crate) const CARGO_DEB: Tool = Tool {
    program: "cargo-deb",
    package: "cargo-deb",
    version: "3.8.0",
    prebuilt: false,
};

impl Tool {
    /// Whether the program is available already.
    pub(crate) fn is_there(&self) -> Result<bool> {
        Ok(installed(self.program) || self.own()?.is_file())
    }

    /// The path of the program, if this task has installed it.
    fn own(&self) -> Result<PathBuf> {
        Ok(folder()?.join("bin").join(self.program))
    }

    /// The program, ready to run in the root of the workspace.
    pub(crate) fn command(&self) -> Result<Command> {
        if !self.is_there()? {
            self.install(&folder()?)?;
        }
        let mut command = match installed(self.program) {
            true => Command::new(self.program),
            false => Command::new(self.own()?),
        };
        command.current_dir(root());
        Ok(command)
    }

    fn install(&self, folder: &Path) -> Result<()> {
        eprintln!("\n== installing {} {} ==", self.program, self.version);
        if self.prebuilt && prebuilt(folder).is_ok() && self.is_there()? {
            return Ok(());
        }
        let package = format!("{}@{}", self.package, self.version);
        let mut install = cargo(&["install", "--locked", &package, "--root"]);
        let advice = || format!("install `{}` manually", self.program);
        run(install.arg(folder)).with_context(advice)
    }
}

/// Downloads all files of `xtask/hygiene.txt`, and checks each against its hash.
fn prebuilt(folder: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--upgrade"]);
    pip.args(["--disable-pip-version-check", "--root-user-action=ignore"]);
    pip.args(["--only-binary", ":all:", "--no-deps", "--require-hashes"]);
    pip.arg("--target").arg(folder);
    pip.args(["--requirement", "xtask/hygiene.txt"]);
    run(pip.current_dir(root()))
}

/// The folder for the files that these tasks build and install.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(target()?.join("hygiene"))
}

/// The target folder of this workspace.
pub(crate) fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    // The program of this task is in target/debug.
    let target = program.ancestors().nth(2).context("no target folder")?;
    Ok(target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prebuilt_programs_have_the_same_versions() {
        let list = include_str!("../hygiene.txt");
        for tool in [
            TYPOS,
            CARGO_DENY,
            CARGO_SHEAR,
            CARGO_SEMVER_CHECKS,
            CARGO_DEB,
        ] {
            let pinned = format!("{}=={} ", tool.program, tool.version);
            assert_eq!(list.contains(&pinned), tool.prebuilt, "{pinned}");
        }
    }
}

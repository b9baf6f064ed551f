//! `cargo xtask servers`: the tests and a minute of chaos on servers that this machine does not have.
//!
//! Each server is fetched into `target/servers/NAME` and unpacked there; nothing is installed. A later run
//! uses what is there: delete the folder to look for a newer version.
//!
//! This needs Linux, `curl`, `tar`, `xz`, and `ar`, which comes with the linker that Rust needs; for Redis 6.2 also
//! Python 3 with `pip`. It reaches deb.debian.org and PyPI.

mod debian;
mod pypi;
mod suites;
mod table;

use crate::run::step;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::Row;

/// The series that can be fetched; of each the newest version that is found.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Series {
    #[value(name = "redis-6.2")]
    Redis62,
    #[value(name = "redis-7.0")]
    Redis70,
    #[value(name = "redis-8")]
    Redis8,
    #[value(name = "valkey-8")]
    Valkey8,
    #[value(name = "valkey-9")]
    Valkey9,
}

/// A server that has been fetched.
#[derive(Debug)]
struct Server {
    program: PathBuf,
    /// The libfaketime that sets its clock, where its build allows that.
    faketime: Option<PathBuf>,
}

impl Series {
    /// As on the command line.
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Fetches it into `all`, unless it is there.
    fn fetch(self, all: &Path) -> Result<Server> {
        let folder = all.join(self.name());
        let faketime = folder.join("libfaketime.so.1");
        if !folder.is_dir() {
            // Complete under its own name, or not there at all.
            let partial = all.join(format!("{}.partial", self.name()));
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            fs::create_dir_all(&partial)?;
            match self {
                Self::Redis62 => {
                    pypi::redis("6.2", &partial)?;
                    debian::faketime(all, &partial)?;
                }
                Self::Redis70 => debian::server(all, "redis", "7.0.", &partial)?,
                Self::Redis8 => debian::server(all, "redis", "8.", &partial)?,
                Self::Valkey8 => debian::server(all, "valkey", "8.", &partial)?,
                Self::Valkey9 => debian::server(all, "valkey", "9.", &partial)?,
            }
            fs::rename(&partial, &folder)?;
        }
        Ok(Server {
            program: folder.join("server"),
            faketime: faketime.is_file().then_some(faketime),
        })
    }
}

/// Runs everything on each of these, or on all there are, whatever becomes of the others.
pub(crate) fn check(wanted: &[Series]) -> Result<()> {
    let wanted = if wanted.is_empty() {
        Series::value_variants()
    } else {
        wanted
    };
    let folder = folder()?;
    let rows: Vec<Row> = wanted.iter().map(|series| row(*series, &folder)).collect();
    println!("\n{}", table::shown(&rows));
    ensure!(rows.iter().all(Row::is_good), "not all passed");
    Ok(())
}

fn row(series: Series, folder: &Path) -> Row {
    let name = &series.name();
    let fetched = step(&format!("{name} is fetched"), || {
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

/// What the server says of itself, as in `Redis server v=7.0.15 sha=…`.
fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not start: {said}{errors}");
    eprintln!("{}", said.trim());
    let (_, version) = said.split_once("v=").context("no version in this")?;
    let version = version.split_whitespace().next();
    Ok(version.unwrap_or_default().to_owned())
}

/// Where this task keeps what it fetches.
fn folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    // The target folder, of which the program lies in target/debug.
    let target = program.ancestors().nth(2).context("no target folder")?;
    Ok(target.join("servers"))
}

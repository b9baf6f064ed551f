//! The development tasks of this workspace.
//!
//! `cargo xtask test` needs only a Rust toolchain. `cargo xtask ci` must pass before a change lands. `cargo xtask
//! chaos` searches for faults that no test covers.

mod api;
mod beside;
mod chaos;
mod ci;
mod dist;
mod hygiene;
mod install;
mod release;
mod run;
mod servers;
mod test;
mod tools;

use clap::Parser;
use servers::Series;
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask",
    about = "The development tasks of this workspace"
)]
enum Task {
    /// Run all tests, after installing missing servers
    Test {
        /// Arguments for the test binaries, after `--`: a filter, `--nocapture`, `--test-threads=1`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run all checks that must pass before a change lands: formatting, lints, docs and tests
    ///
    /// If the packaging has changed, it also runs the release checks.
    Ci,
    /// Disturb real servers, networks and processes for a while, and check that nothing went wrong
    ///
    /// For example: `cargo xtask chaos --minutes 2 --seed 1`
    #[command(disable_help_flag = true)]
    Chaos {
        /// Arguments for the harness; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the tests that need a server, and a minute of chaos, on other servers than the one of this machine
    ///
    /// The servers are fetched into the target folder. A table at the end shows the results.
    Servers {
        /// Names of the servers; all of them by default
        names: Vec<Series>,
    },
    /// Check the dependencies and the spelling, after installing missing tools
    Hygiene,
    /// Compare the public surface with `docs/api.txt`, and check what its types need: `Debug`, `Send`, `#[must_use]`
    Api {
        /// Write the surface to the file instead
        #[arg(long)]
        write: bool,
    },
    /// Run the checks that must pass before a release
    ///
    /// They are: smallest versions, the packages as they are published, the oldest compiler, the benches of other
    /// locks, fuzz targets, advisories, the promises of the last release.
    ReleaseChecks,
    /// Check whether everything is ready for a release, and print what to do, and the commands that publish
    ///
    /// It publishes nothing.
    Release,
    /// Build the command `reentry` for distribution: a static program, and a Debian package
    Dist,
}

fn main() -> anyhow::Result<ExitCode> {
    if let Some(ended) = api::rustdoc::run_as_rustdoc() {
        return Ok(ended);
    }
    match Task::parse() {
        Task::Test { args } => test::all(&args),
        Task::Ci => ci::all(),
        Task::Chaos { args } => chaos::all(&args),
        Task::Servers { names } => servers::check(&names),
        Task::Hygiene => hygiene::check(),
        Task::Api { write } => api::task(write),
        Task::ReleaseChecks => release::checks(),
        Task::Release => release::ready::check(),
        Task::Dist => dist::all(),
    }
    .map(|()| ExitCode::SUCCESS)
}

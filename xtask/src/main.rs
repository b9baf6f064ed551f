//! The chores of this workspace.
//!
//! `cargo xtask test` needs nothing but a Rust toolchain; `cargo xtask ci` is what must pass before
//! a change lands; `cargo xtask chaos` looks for faults that no test covers.

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
#[command(bin_name = "cargo xtask", about = "The chores of this workspace")]
enum Task {
    /// Run every test, after installing the servers that are missing.
    Test {
        /// What goes to the test binaries, after `--`: a filter, `--nocapture`, `--test-threads=1`.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Everything that must pass before a change lands: formatting, lints, docs and tests; where the packaging has
    /// changed, also the release checks.
    Ci,
    /// Breaks real servers, networks and processes for a while, and checks that nothing went wrong:
    /// `cargo xtask chaos --minutes 2 --seed 1`.
    #[command(disable_help_flag = true)]
    Chaos {
        /// What goes to the harness; `--help` shows it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// The tests that need a server, and a minute of chaos, on other servers than the one of this
    /// machine, which are fetched into the target folder; prints a table of what became of them.
    Servers {
        /// Which of them; all if none is named.
        names: Vec<Series>,
    },
    /// What is depended on, and how it is all spelt; installs the tools for it.
    Hygiene,
    /// Compares the public surface with `docs/api.txt`, and checks what its types need: `Debug`, `Send`, `#[must_use]`.
    Api {
        /// Write the surface into the file instead.
        #[arg(long)]
        write: bool,
    },
    /// What must pass before a release: smallest versions, the packages as they are published, the oldest
    /// compiler, the benches beside peers, fuzz targets, advisories, the promises of the last release.
    ReleaseChecks,
    /// Says whether all is ready for a release, what to do if not, and the commands that publish. Publishes nothing.
    Release,
    /// Builds the command `reentry` for others: a static program, and a Debian package with man pages and completions.
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

//! The chores of this workspace.
//!
//! `cargo xtask test` needs nothing but a Rust toolchain; `cargo xtask ci` is what must pass before
//! a change lands.

mod ci;
mod install;
mod run;
mod test;

use clap::Parser;

#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", about = "The chores of this workspace")]
enum Task {
    /// Run every test, after installing redis-server where it is missing.
    Test {
        /// What goes to the test binaries, after `--`: a filter, `--nocapture`, `--test-threads=1`.
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Everything that must pass before a change lands: formatting, lints, docs and tests.
    Ci,
}

fn main() -> anyhow::Result<()> {
    match Task::parse() {
        Task::Test { args } => test::all(&args),
        Task::Ci => ci::all(),
    }
}

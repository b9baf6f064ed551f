//! The subcommands. Each has a file or a folder with its arguments and its code.

#[cfg(feature = "bench")]
mod bench;
mod completions;
mod doctor;
mod fence;
pub(crate) mod help;
#[cfg(unix)]
mod hold;
mod ls;
mod man;
mod release;
#[cfg(unix)]
pub(crate) mod run;
pub(crate) mod show;
#[cfg(feature = "watch")]
mod watch;

use clap::{CommandFactory, Parser, Subcommand};

use crate::args::Global;
use crate::exit::Exit;
use crate::foreign::explained;

/// Distributed locks from the shell: run under a lock, see who holds which
#[derive(Debug, Parser)]
#[command(name = "reentry", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(unix)]
    Run(Box<run::Args>),
    #[cfg(unix)]
    Hold(Box<hold::Args>),
    Ls(ls::Args),
    Show(show::Args),
    Release(release::Args),
    #[cfg(feature = "watch")]
    Watch(watch::Args),
    Doctor(doctor::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    Fence(fence::Args),
    Completions(completions::Args),
    Man(man::Args),
    Help(help::Args),
}

/// The whole program, with its help.
pub(crate) fn program() -> clap::Command {
    help::with_pages(Cli::command())
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self.ended(global).await {
            Err(error) => Err(explained(error, global).await),
            ended => ended,
        }
    }

    async fn ended(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Self::Ls(args) => ls::run(args, global).await,
            Self::Show(args) => show::run(args, global).await,
            Self::Release(args) => release::run(args, global).await,
            #[cfg(feature = "watch")]
            Self::Watch(args) => watch::run(args, global).await,
            Self::Doctor(args) => doctor::run(args, global).await,
            #[cfg(feature = "bench")]
            Self::Bench(args) => bench::run(args, global).await,
            #[cfg(unix)]
            Self::Run(args) => run::run(*args, global).await,
            #[cfg(unix)]
            Self::Hold(args) => hold::run(&args, global).await,
            Self::Fence(args) => fence::run(&args, global),
            Self::Completions(args) => completions::run(&args, program()),
            Self::Man(args) => man::run(&args, program()),
            Self::Help(args) => help::run(&args, program()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_is_consistent() {
        program().debug_assert();
    }
}

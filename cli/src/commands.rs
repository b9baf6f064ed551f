//! The subcommands: one file or folder for each, its arguments beside its code.

mod completions;
mod man;
#[cfg(unix)]
pub(crate) mod run;

use clap::Subcommand;

use crate::{args::Global, exit::Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(unix)]
    Run(Box<run::Args>),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            #[cfg(unix)]
            Self::Run(args) => run::run(*args, global).await,
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

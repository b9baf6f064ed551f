//! The subcommands: one file or folder for each, its arguments beside its code.

mod completions;
#[cfg(unix)]
mod run;

use clap::Subcommand;

use crate::{args::Global, exit::Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(unix)]
    Run(Box<run::Args>),
    Completions(completions::Args),
    #[cfg(unix)]
    #[command(name = run::guard::NAME, hide = true)]
    GuardOfRun(run::guard::Args),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            #[cfg(unix)]
            Self::Run(args) => run::run(*args, global).await,
            Self::Completions(args) => completions::run(&args),
            #[cfg(unix)]
            Self::GuardOfRun(args) => run::guard::run(&args),
        }
    }
}

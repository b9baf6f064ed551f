//! The subcommands: one file or folder for each, its arguments beside its code.

mod completions;
mod doctor;
mod ls;
mod man;
mod release;
#[cfg(unix)]
pub(crate) mod run;
mod show;
mod watch;

use clap::Subcommand;

use crate::{args::Global, exit::Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(unix)]
    Run(Box<run::Args>),
    Ls(ls::Args),
    Show(show::Args),
    Release(release::Args),
    Watch(watch::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Self::Ls(args) => ls::run(args, global).await,
            Self::Show(args) => show::run(args, global).await,
            Self::Release(args) => release::run(args, global).await,
            Self::Watch(args) => watch::run(args, global).await,
            Self::Doctor(args) => doctor::run(args, global).await,
            #[cfg(unix)]
            Self::Run(args) => run::run(*args, global).await,
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}

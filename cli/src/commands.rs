//! The subcommands: one file or folder for each, its arguments beside its code.

mod completions;

use clap::Subcommand;

use crate::{args::Global, exit::Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Completions(completions::Args),
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let _ = global;
        match self {
            Self::Completions(args) => completions::run(&args),
        }
    }
}

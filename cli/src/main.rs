//! The command `reentry`: locks of the crate of that name from a shell.
//!
//! | file | what it is |
//! |---|---|
//! | `args` | what every subcommand takes: the address, the prefix, how it prints |
//! | `connect` | the connection that this gives |
//! | `servers` | the servers one by one, for commands that look at each of them |
//! | `output` | what is printed: for a person, or JSON |
//! | `signals` | what this process is sent, and by whom |
//! | `text` | text of other programs on a terminal |
//! | `view` | a lock as it is shown |
//! | `top` | the first of many locks in some order |
//! | `progress` | how far something is, on a terminal |
//! | `usage` | what is wrong with the arguments |
//! | `exit` | the exit codes, in one table |
//! | `commands` | one file or folder for each subcommand, its arguments beside its code |

mod args;
mod commands;
mod connect;
mod exit;
mod output;
mod progress;
mod servers;
#[cfg(unix)]
mod signals;
mod text;
mod top;
mod usage;
mod view;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use crate::{
    commands::Cli,
    exit::{Exit, Failure},
};

fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(ended) = commands::run::guard::run() {
        return ended
            .unwrap_or_else(|error| Failure::new(error, false).say())
            .into();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::say(&error).into(),
    };
    cli.global.color.write_global();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.say().into(),
    }
}

/// The renewals have a thread of their own: nothing that a subcommand does in between keeps them waiting.
fn run(cli: Cli) -> Result<Exit, Failure> {
    let is_json = cli.global.json;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(cli.command.run(&cli.global)),
        Err(error) => Err(error.into()),
    };
    ended.map_err(|error| Failure::new(error, is_json))
}

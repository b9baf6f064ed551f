//! The command `reentry`: the locks of the crate `reentry`, from a shell.
//!
//! | file | what it is |
//! |---|---|
//! | `args` | the arguments that all subcommands share: the address, the prefix, the form of the output |
//! | `password` | the password from a file |
//! | `connect` | the connection for these arguments |
//! | `servers` | the servers one by one, for commands that examine each of them |
//! | `output` | the output: text for a person, or JSON |
//! | `acquire` | the locks of `run` and `hold`, and the wait for them |
//! | `look` | the locks that servers have: page by page, or one with its queue |
//! | `signals` | the signals that this process receives, and their senders |
//! | `text` | text of other programs on a terminal |
//! | `view` | a lock as the program shows it |
//! | `top` | the first of many locks in some order |
//! | `progress` | the progress of a long task, on a terminal |
//! | `usage` | errors in the arguments |
//! | `exit` | the exit codes, in one table |
//! | `commands` | one file or folder for each subcommand, with its arguments and its code |

#[cfg(unix)]
mod acquire;
mod args;
mod commands;
mod connect;
mod exit;
mod look;
mod output;
mod password;
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

use crate::commands::Cli;
use crate::exit::{Exit, Failure};

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

/// Runs the subcommand. The renewals have a thread of their own, so that nothing can delay them.
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

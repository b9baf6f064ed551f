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
//! | `note` | what `run` and `hold` say about their locks |
//! | `inspector` | the locks that servers have: page by page, or one with its queue |
//! | `signals` | the signals that this process receives, and their senders |
//! | `text` | text of other programs on a terminal |
//! | `secrets` | the secrets of addresses, which no output has |
//! | `view` | a lock as the program shows it |
//! | `columns` | the columns of a table of locks |
//! | `foreign` | the values of other programs at keys of locks |
//! | `ranking` | the first of many locks in some order |
//! | `progress` | the progress of a long task, on a terminal |
//! | `usage` | errors in the arguments |
//! | `exit` | the exit codes, in one table |
//! | `commands` | one file or folder for each subcommand, with its arguments and its code |

#[cfg(unix)]
mod acquire;
mod args;
mod columns;
mod commands;
mod connect;
mod exit;
mod foreign;
mod inspector;
mod note;
mod output;
mod password;
mod progress;
mod ranking;
mod secrets;
mod servers;
#[cfg(unix)]
mod signals;
mod text;
mod usage;
mod view;

use std::env;
use std::process::ExitCode;

use clap::FromArgMatches;
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
    if env::args_os().len() <= 1 {
        let shown = commands::help::overview(commands::program());
        let shown = shown.unwrap_or_else(|error| Failure::new(error, false).say());
        return shown.into();
    }
    let matches = commands::program().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return usage::say(error).into(),
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

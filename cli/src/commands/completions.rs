//! `reentry completions`: the completions for a shell.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::exit::Exit;
use crate::output;

/// Print the completions for a shell
///
/// For bash: reentry completions bash > ~/.local/share/bash-completion/completions/reentry
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the shell
    shell: Shell,
}

/// Prints the completions. `command` is the whole program.
pub(crate) fn run(args: &Args, mut command: Command) -> anyhow::Result<Exit> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    output::write(&script)?;
    Ok(Exit::Success)
}

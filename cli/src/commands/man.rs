//! `reentry man`: the man pages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

use crate::exit::Exit;
use crate::output;

/// Print the man page, or write all pages to a directory
///
/// For man(1) to find the pages: reentry man ~/.local/share/man/man1
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for reentry.1, reentry-run.1 and the others; it is created if it is missing
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// The page of a command. `command` is the whole program.
pub(crate) fn run(args: &Args, command: Command) -> anyhow::Result<Exit> {
    match &args.folder {
        Some(folder) => {
            let says_what = || format!("cannot write the man pages to {}", folder.display());
            fs::create_dir_all(folder).with_context(says_what)?;
            clap_mangen::generate_to(command, folder).with_context(says_what)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            output::write(&page)?;
        }
    }
    Ok(Exit::Success)
}

//! The servers that can be fetched.

use super::{debian, pypi};
use anyhow::Result;
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};

/// The series that can be fetched. The newest version of a series is used.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Series {
    #[value(name = "redis-6.2")]
    Redis62,
    #[value(name = "redis-7.0")]
    Redis70,
    #[value(name = "redis-8")]
    Redis8,
    #[value(name = "valkey-8")]
    Valkey8,
    #[value(name = "valkey-9")]
    Valkey9,
}

/// A server that has been fetched.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) program: PathBuf,
    /// The libfaketime that sets the clock of the server, if its build allows that.
    pub(super) faketime: Option<PathBuf>,
}

impl Series {
    /// The name on the command line.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Fetches the server into `all`, unless it is there.
    pub(super) fn fetch(self, all: &Path) -> Result<Server> {
        let folder = all.join(self.name());
        let faketime = folder.join("libfaketime.so.1");
        if !folder.is_dir() {
            // The folder with this name is complete, or does not exist.
            let partial = all.join(format!("{}.partial", self.name()));
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            fs::create_dir_all(&partial)?;
            match self {
                Self::Redis62 => {
                    pypi::redis("6.2", &partial)?;
                    debian::faketime(all, &partial)?;
                }
                Self::Redis70 => debian::server(all, "redis", "7.0.", &partial)?,
                Self::Redis8 => debian::server(all, "redis", "8.", &partial)?,
                Self::Valkey8 => debian::server(all, "valkey", "8.", &partial)?,
                Self::Valkey9 => debian::server(all, "valkey", "9.", &partial)?,
            }
            fs::rename(&partial, &folder)?;
        }
        Ok(Server {
            program: folder.join("server"),
            faketime: faketime.is_file().then_some(faketime),
        })
    }
}

//! The password of the servers, from a file as container platforms mount it.
//!
//! Each connection of the locks reads a regular file again, so that a process that runs for days follows a rotation. All
//! other connections use what was read first. Pipes can be read only once.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::{convert::Infallible, fmt};

use anyhow::{Context, bail, ensure};
use futures_util::{Stream, stream};
use redis::{BasicAuth, RedisResult, StreamingCredentialsProvider};
use reentry::__admin::RedisServer;

/// The size of the largest file that is read.
const MAX_FILE_LENGTH: u64 = 64 * 1024;

/// The user of a server that names no users.
const USER: &str = "default";

const TWICE: &str = "the address contains a password, but --password-file or REENTRY_PASSWORD_FILE is used, too: remove one of them";

/// A file with a password. Its content is read when it is needed first.
#[derive(Clone)]
pub(crate) struct PasswordFile {
    path: PathBuf,
    first: Arc<OnceLock<String>>,
}

impl PasswordFile {
    /// The password, as it was read first.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no password. The error names it, and never has its content.
    pub(crate) fn password(&self) -> anyhow::Result<&str> {
        if self.first.get().is_none() {
            let read = read(&self.path);
            let read = read.with_context(|| self.failed())?;
            let _ = self.first.set(read);
        }
        Ok(self.first.get().map_or("", String::as_str))
    }

    /// The login of each connection to such a server.
    ///
    /// # Errors
    ///
    /// The address has a password.
    pub(crate) fn login(&self, server: &RedisServer) -> anyhow::Result<Login> {
        let settings = server.login();
        ensure!(settings.password().is_none_or(str::is_empty), TWICE);
        Ok(Login {
            user: settings.username().unwrap_or(USER).to_owned(),
            file: self.clone(),
        })
    }

    fn failed(&self) -> String {
        format!("cannot read a password from {}", self.path.display())
    }
}

impl FromStr for PasswordFile {
    type Err = Infallible;

    fn from_str(path: &str) -> Result<Self, Infallible> {
        Ok(Self {
            path: path.into(),
            first: Arc::default(),
        })
    }
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// A user with the newest password of a file.
pub(crate) struct Login {
    user: String,
    file: PasswordFile,
}

impl Login {
    pub(crate) fn user(&self) -> &str {
        &self.user
    }
}

impl StreamingCredentialsProvider for Login {
    fn subscribe(&self) -> Pin<Box<dyn Stream<Item = RedisResult<BasicAuth>> + Send + 'static>> {
        let path = &self.file.path;
        let again = fs::metadata(path).is_ok_and(|it| it.is_file());
        let newest = again.then(|| read(path).ok()).flatten();
        let first = || self.file.first.get().cloned().unwrap_or_default();
        let login = BasicAuth::new(self.user.clone(), newest.unwrap_or_else(first));
        Box::pin(stream::iter([Ok(login)]))
    }
}

/// The content of the file without the newline at its end.
fn read(path: &Path) -> anyhow::Result<String> {
    let mut content = Vec::new();
    File::open(path)?
        .take(MAX_FILE_LENGTH + 1)
        .read_to_end(&mut content)?;
    ensure!(
        content.len() as u64 <= MAX_FILE_LENGTH,
        "it is longer than 64 KiB"
    );
    let Ok(mut text) = String::from_utf8(content) else {
        bail!("it is not valid UTF-8");
    };
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    ensure!(!text.is_empty(), "it is empty");
    Ok(text)
}

//! The password of the servers, from a file as container platforms mount it.
//!
//! The first read is part of the address. Each connection of the locks reads a regular file again, so that a process that
//! runs for days follows a rotation. Pipes can be read only once.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::{convert::Infallible, fmt};

use anyhow::{Context, bail, ensure};
use futures_util::{Stream, stream};
use redis::{BasicAuth, ConnectionInfo, RedisResult, StreamingCredentialsProvider};

/// The size of the largest file that is read.
const MOST: u64 = 64 * 1024;

/// The user of a server that names no users.
const USER: &str = "default";

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

    /// The address with the password.
    ///
    /// # Errors
    ///
    /// The address has a password. The file cannot be read.
    pub(crate) fn address(&self, url: &str) -> anyhow::Result<String> {
        with_password(url, self.password()?)
    }

    /// The login of each connection to such a server.
    pub(crate) fn login(&self, server: &ConnectionInfo) -> Login {
        let user = server.redis_settings().username();
        Login {
            user: user.unwrap_or(USER).to_owned(),
            file: self.clone(),
        }
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
    File::open(path)?.take(MOST + 1).read_to_end(&mut content)?;
    ensure!(content.len() as u64 <= MOST, "it is longer than 64 KiB");
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

/// The address with a password.
fn with_password(url: &str, password: &str) -> anyhow::Result<String> {
    const TWICE: &str = "the address contains a password, but --password-file or REENTRY_PASSWORD_FILE is used, too: remove one of them";
    let encoded = || password.bytes().map(|byte| format!("%{byte:02X}"));
    let encoded: String = encoded().collect();
    let Some((scheme, rest)) = url.split_once("://") else {
        // The library reports the error.
        return Ok(url.to_owned());
    };
    if scheme == "unix" || scheme.ends_with("+unix") {
        let query = rest.split_once('?').map(|(_, query)| query);
        let mut parameters = query.unwrap_or_default().split('&');
        ensure!(!parameters.any(|it| it.starts_with("pass=")), TWICE);
        let joint = query.map_or('?', |_| '&');
        return Ok(format!("{url}{joint}pass={encoded}"));
    }
    let (login, hosts) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (user, present) = login.split_once(':').unwrap_or((login, ""));
    ensure!(present.is_empty(), TWICE);
    Ok(format!("{scheme}://{user}:{encoded}@{hosts}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_becomes_a_part_of_the_address() {
        for (url, expected) in [
            ("redis://host", "redis://:%61%2F@host"),
            ("redis://app@host:1/2", "redis://app:%61%2F@host:1/2"),
            ("redis://app:@host", "redis://app:%61%2F@host"),
            ("redis+cluster://a:1,b:2", "redis+cluster://:%61%2F@a:1,b:2"),
            ("unix:///run/redis", "unix:///run/redis?pass=%61%2F"),
            ("unix:///r?user=app", "unix:///r?user=app&pass=%61%2F"),
            ("host", "host"),
        ] {
            assert_eq!(with_password(url, "a/").unwrap(), expected);
        }
        for url in [
            "redis://:b@host",
            "redis://a:b/c@host",
            "unix:///r?db=1&pass=b",
        ] {
            assert!(with_password(url, "a").is_err(), "{url}");
        }
    }
}

//! The arguments that all subcommands share.

use std::convert::Infallible;
use std::fmt;
#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::password::PasswordFile;

/// The servers, and the form of the output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection options")]
pub(crate) struct Global {
    /// Address of the servers: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://
    ///
    /// Other users of this machine can read the arguments of a process. So put an address that contains a password in
    /// the environment variable.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub(crate) url: Url,
    /// File with the password of the servers, instead of a password in the address
    ///
    /// A newline at its end is not part of the password. A regular file is read again for each connection of the
    /// locks. A pipe is read only once.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "REENTRY_PASSWORD_FILE",
        hide_env_values = true
    )]
    pub(crate) password_file: Option<PasswordFile>,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub(crate) tls: Tls,
    /// Prefix of the names of all locks on the server
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "REENTRY_PREFIX",
        hide_env_values = true,
        hide_default_value = true,
        default_value = ""
    )]
    pub(crate) prefix: String,
    /// How long to wait for a connection
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        env = "REENTRY_CONNECT_TIMEOUT",
        hide_env_values = true,
        default_value = "2s",
        value_parser = duration
    )]
    pub(crate) connect_timeout: Duration,
    /// How long to wait for a response from the server
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        env = "REENTRY_RESPONSE_TIMEOUT",
        hide_env_values = true,
        default_value = "1s",
        value_parser = duration
    )]
    pub(crate) response_timeout: Duration,
    /// Print JSON instead of text, errors included
    #[arg(long, global = true, help_heading = None)]
    pub(crate) json: bool,
    /// When to use colours; `auto` uses them on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

impl Global {
    /// Reads the password, if it is in a file. Call this before signals are handled: a pipe may have no writer, and a signal must
    /// end the process then.
    pub(crate) fn read_password(&self) -> anyhow::Result<()> {
        let file = self.password_file.as_ref();
        file.map_or(Ok(()), |file| file.password().map(drop))
    }
}

/// The certificates for addresses with TLS, as files in the format PEM.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, Args)]
pub(crate) struct Tls {
    /// File with the certificates of the trusted authorities, instead of those of the system
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "REENTRY_CACERT",
        hide_env_values = true
    )]
    pub(crate) cacert: Option<PathBuf>,
    /// File with the certificate that is presented to the servers
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "REENTRY_CERT",
        hide_env_values = true,
        requires = "cert_key"
    )]
    pub(crate) cert: Option<PathBuf>,
    /// File with the private key of that certificate
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "REENTRY_CERT_KEY",
        hide_env_values = true,
        requires = "cert"
    )]
    pub(crate) cert_key: Option<PathBuf>,
}

/// An address, which may contain a password. No output shows it.
#[derive(Clone)]
pub(crate) struct Url(String);

impl Url {
    /// The complete address, exclusively for the connection.
    pub(crate) fn with_secrets(&self) -> &str {
        &self.0
    }
}

impl FromStr for Url {
    // The crate reports the error, and does not repeat the address.
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Url(..)")
    }
}

/// The choice when to print in colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Sets the choice for all that is printed through `anstream` from then on.
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// Reads `30s`, `1m 30s` or `500ms`. A number without a unit means seconds, as for timeout(1).
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_means_seconds() {
        for (text, expected) in [
            ("2", 2000),
            ("0.5", 500),
            ("30s", 30_000),
            ("1m 30s", 90_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(expected)),
                "{text}"
            );
        }
        for text in ["", "-1", "inf", "NaN", "1e300", "soon", "5 parsecs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_is_not_shown_for_debugging() {
        let url: Url = "redis://:hunter2@host".parse().unwrap();
        assert!(!format!("{url:?} {url:#?}").contains("hunter2"));
    }
}

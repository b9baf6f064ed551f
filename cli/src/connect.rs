//! The connection for the given arguments.

#[cfg(feature = "tls")]
use std::{fs, path::Path};

use std::time::Duration;

use anyhow::{Context, ensure};
use reentry::__admin::{RedisServer, Seeds};
#[cfg(feature = "tls")]
use reentry::Certificates;
use reentry::{Locks, LocksBuilder};

use crate::args::Global;
#[cfg(feature = "tls")]
use crate::args::Tls;

/// Connects to the servers of `--url`.
///
/// # Errors
///
/// [`reentry::LockError`], without any password.
pub(crate) async fn locks(global: &Global) -> anyhow::Result<Locks> {
    Ok(builder(global)?.build().await?)
}

/// A builder for the servers of `--url`, for further options.
///
/// # Errors
///
/// An address in the memory of this process: no other process could see its locks. A file that cannot be read. Two
/// passwords.
pub(crate) fn builder(global: &Global) -> anyhow::Result<LocksBuilder> {
    let url = global.url.with_secrets();
    ensure!(
        url != "memory:",
        "`memory:` is the memory of a single process: use the address of a server, for example redis://127.0.0.1:6379"
    );
    let builder = Locks::builder(url)
        .prefix(&global.prefix)
        .connect_timeout(global.connect_timeout)
        .response_timeout(global.response_timeout)
        .outage(Duration::MAX);
    #[cfg(feature = "tls")]
    let builder = match certificates(&global.tls)? {
        Some(certificates) => builder.certificates(certificates),
        None => builder,
    };
    match &global.password_file {
        Some(file) => {
            let login = file.login(&server(&builder)?)?;
            let (user, password) = (login.user().to_owned(), file.password()?);
            Ok(builder.login(user, password).credentials(login))
        }
        None => Ok(builder),
    }
}

/// How the servers of a builder are connected to; of several one.
fn server(builder: &LocksBuilder) -> anyhow::Result<RedisServer> {
    let server = match Seeds::from_builder(builder)? {
        Seeds::Server(server) | Seeds::Sentinels { server, .. } => Some(server),
        Seeds::Cluster(servers) => servers.into_iter().next(),
    };
    server.context("the address does not name a server")
}

/// The certificates of the files that are named.
#[cfg(feature = "tls")]
fn certificates(tls: &Tls) -> anyhow::Result<Option<Certificates>> {
    let read =
        |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    let mut certificates = None;
    if let Some(file) = &tls.cacert {
        certificates = Some(Certificates::new().authority(read(file)?));
    }
    if let (Some(certificate), Some(key)) = (&tls.cert, &tls.cert_key) {
        let others = certificates.unwrap_or_default();
        certificates = Some(others.client(read(certificate)?, read(key)?));
    }
    Ok(certificates)
}

//! The connection for the given arguments.

use anyhow::ensure;
use reentry::{Locks, LocksBuilder};

use crate::args::Global;

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
/// An address in the memory of this process: no other process could see its locks.
pub(crate) fn builder(global: &Global) -> anyhow::Result<LocksBuilder> {
    let url = global.url.with_secrets();
    ensure!(
        url != "memory:",
        "`memory:` is the memory of one process: name a server, such as redis://127.0.0.1:6379"
    );
    Ok(Locks::builder()
        .url(url)
        .prefix(&global.prefix)
        .connect_timeout(global.connect_timeout)
        .response_timeout(global.response_timeout))
}

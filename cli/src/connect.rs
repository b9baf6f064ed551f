//! The connection that the arguments give.

use anyhow::ensure;
use reentry::{Locks, LocksBuilder};

use crate::args::Global;

/// A connection to the servers of `--url`.
///
/// # Errors
///
/// [`reentry::LockError`], which holds no password.
pub(crate) async fn locks(global: &Global) -> anyhow::Result<Locks> {
    Ok(builder(global)?.build().await?)
}

/// The same before it is made, for further options.
///
/// # Errors
///
/// An address in the memory of this process, where no other process could see a lock.
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

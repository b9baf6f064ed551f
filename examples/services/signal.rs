//! The end of a program, as its supervisor or its user asks for it.

use std::io;

/// Resolves at SIGTERM or Ctrl-C. It sees every signal after this call, also one that comes before it is awaited.
#[cfg(unix)]
pub(crate) fn terminated() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(not(unix))]
pub(crate) fn terminated() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

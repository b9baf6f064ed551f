//! The two locks behind one interface.

use reentry::{LockGuard, Locks};

use super::classic::{Classic, ClassicHold};

/// The number of processes, as the server sees them: each has its own connections.
pub(super) const PROCESSES: usize = 2;

#[derive(Clone)]
pub(super) enum Contestant {
    Reentry(Vec<Locks>, String),
    /// The callers all ask by themselves, so the process makes no difference.
    Classic(Classic),
}

impl Contestant {
    /// Waits for the lock, as a new caller in this process.
    pub(super) async fn acquire(&self, process: usize) -> anyhow::Result<Held> {
        match self {
            Self::Reentry(locks, key) => {
                let locks = &locks[process % locks.len()];
                Ok(Held::Reentry(locks.lock(key).acquire().await?))
            }
            Self::Classic(classic) => Ok(Held::Classic(classic.acquire().await?)),
        }
    }
}

pub(super) enum Held {
    Reentry(LockGuard),
    Classic(ClassicHold),
}

impl Held {
    pub(super) async fn release(self) -> anyhow::Result<()> {
        match self {
            Self::Reentry(guard) => Ok(guard.release().await?),
            Self::Classic(hold) => hold.release().await,
        }
    }
}

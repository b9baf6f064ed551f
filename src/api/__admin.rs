//! What the command `reentry` asks for beside the public interface. Not part of it: it may change at any time.

use crate::{
    api::{
        builder::LocksBuilder,
        inspect::LockInfo,
        list::{ListedLock, glance},
        locks::{Locks, on},
    },
    base::{
        error::{LockError, LostReason, StoreError},
        id::HoldId,
    },
    hold::held::Held,
    store::{Presence, Renew, Seen, Store, members::Member, waits::Enclosing},
};

pub use crate::store::members::{Reply, Role};

/// One of the servers, with a connection of its own to it, which is made by the first command. Clones share it.
#[derive(Clone, Debug)]
pub struct Server(Member);

impl Server {
    /// What it does.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.0.role
    }

    /// Where it is, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.commands.address()
    }

    /// Sends one command, once, and waits for the answer. What the server refuses is [`Reply::Error`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if there is no connection, or no answer.
    pub async fn command<W: AsRef<[u8]>>(
        &self,
        words: impl IntoIterator<Item = W>,
    ) -> Result<Reply, StoreError> {
        let words = words.into_iter().map(|word| word.as_ref().to_vec());
        self.0.commands.command(words.collect()).await
    }
}

impl LocksBuilder {
    /// The program runs inside these holds, each with its key in the store: another program has taken them, and releases
    /// them when this one has ended. So they enclose each of its acquisitions, where deadlocks are looked for.
    #[doc(hidden)]
    pub fn __inside<K: AsRef<str>>(mut self, holds: impl IntoIterator<Item = (HoldId, K)>) -> Self {
        let holds = holds.into_iter().map(|(hold, key)| Enclosing {
            hold,
            key: key.as_ref().into(),
        });
        self.inside = holds.collect();
        self
    }
}

impl Locks {
    /// The servers: of several, as far as the sentinels, or the servers of the cluster, know them. None in memory, and none
    /// over a pool without a URL.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`] if none of those that were given answers.
    #[doc(hidden)]
    pub async fn __servers(&self) -> Result<Vec<Server>, LockError> {
        let members = self.engine().store().members().await;
        let members = members.map_err(|source| LockError::Store { key: None, source })?;
        Ok(members.into_iter().map(Server).collect())
    }

    /// What stands in one lock, as a [list](Self::list) shows it: at a bounded cost, however many wait. `None` if it is
    /// free, or does not look like a lock.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect).
    #[doc(hidden)]
    pub async fn __glance(&self, key: impl AsRef<str>) -> Result<Option<ListedLock>, LockError> {
        let key = self.engine().open_key(key.as_ref())?;
        glance(self.engine(), key).await
    }

    /// Whether the server has refused a request because of its key alone, for which the key patterns of the user are too
    /// narrow.
    #[doc(hidden)]
    #[must_use]
    pub fn __refuses_key(&self, error: &LockError) -> bool {
        matches!(error, LockError::Store { source, .. } if Store::rejects_key(source))
    }

    /// Renews a lock now, as its holder does from time to time.
    ///
    /// # Errors
    ///
    /// [`LockError::Store`], or [`LockError::Lost`] if the store does not hold it any more.
    #[doc(hidden)]
    pub async fn __renew(&self, held: &Held) -> Result<(), LockError> {
        let key = self.engine().open_key(held.key())?;
        let (hold, ttl) = (held.hold_id(), held.remaining());
        let renewed = self.engine().store().ask(Renew {
            key: key.clone(),
            hold,
            ttl,
        });
        match renewed.await.map_err(on(&key))? {
            Presence::Present => Ok(()),
            Presence::Gone => Err(LockError::Lost {
                key: key.name().to_owned(),
                reason: LostReason::Gone,
            }),
        }
    }

    /// How the store has answered last to the callers of this process that wait for a lock: it is held, or an error. `None`
    /// before the first answer, and where no caller waits.
    #[doc(hidden)]
    #[must_use]
    pub fn __answered(&self, key: impl AsRef<str>) -> Option<Result<(), LockError>> {
        let key = self.engine().open_key(key.as_ref()).ok()?;
        let answered = self.engine().renewals().queues().answered(&key)?;
        Some(answered.map_err(on(&key)))
    }

    /// Ends the holds that an inspection has shown, as far as they are still there, and no other ones. Returns those that
    /// were ended.
    ///
    /// # Errors
    ///
    /// As for [`force_release`](Self::force_release).
    #[doc(hidden)]
    pub async fn __release_seen(
        &self,
        key: impl AsRef<str>,
        seen: &LockInfo,
    ) -> Result<Vec<String>, LockError> {
        let key = self.engine().open_key(key.as_ref())?;
        let fields = seen.holders.iter();
        let seen = Seen {
            fields: fields.map(|it| it.hold_id.clone().into_bytes()).collect(),
            token: seen.token,
        };
        let ended = self.engine().force_release(&key, seen).await;
        ended.map_err(on(&key))
    }
}

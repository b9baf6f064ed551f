//! Requests about a lock, as the store is asked them: an acquire once, a release until it is answered.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use super::step::{Answer, Release, Reply};
use crate::{
    base::{
        backoff::pauses,
        error::{Effect, Failure, LostReason},
        events,
        id::InboxId,
        key::LockKey,
        timer::sleep,
    },
    store::{
        AcquireRequest, Presence, ReleaseReply, ReleaseRequest, Store, Successor, TOMBSTONE_LIFE,
    },
};

/// How many releases may be repeated at a time. A server that is too slow to answer in time must not be
/// kept so by those who ask it again.
const REPETITIONS: usize = 8;

/// The store, as the local queues ask it.
#[derive(Debug)]
pub(super) struct Requests {
    store: Arc<dyn Store>,
    inbox: InboxId,
    repetitions: Semaphore,
}

impl Requests {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            inbox: InboxId::new(),
            repetitions: Semaphore::new(REPETITIONS),
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(super) fn inbox(&self) -> InboxId {
        self.inbox
    }

    /// Asks for the lock, once.
    pub(super) async fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer {
        let (sent, sent_epoch) = (Instant::now(), self.store.connection_epoch());
        let reply = match self.store.acquire(key, request).await {
            Ok(reply) => Reply::Acquire(reply),
            Err(error) if error.effect() == Effect::Refused => Reply::Refused(error),
            Err(error) => {
                events::acquire_retried(key, &error);
                Reply::Unanswered(error)
            }
        };
        self.answer(sent, sent_epoch, reply)
    }

    /// Ends a hold, and tells what has become of the successor.
    ///
    /// `Gone` proves a loss only on the first attempt, since a repetition may meet its own success,
    /// and only before the deadline, since after it the lease may just have run out.
    ///
    /// Every repetition names the same successor: an earlier one may have given it the lock.
    pub(super) async fn release(
        &self,
        key: &LockKey,
        release: Release,
        successor: Option<Successor>,
    ) -> (Result<(), Failure>, Answer) {
        let Release {
            hold,
            tombstone,
            deadline,
            ttl,
        } = release;
        let request = ReleaseRequest {
            hold,
            inbox: self.inbox,
            tombstone,
            successor,
        };
        let patience = if tombstone {
            ttl.max(TOMBSTONE_LIFE)
        } else {
            ttl
        };
        let give_up = Instant::now() + patience;
        let mut pauses = pauses();
        let mut repetition = None;
        let mut repeats = false;
        loop {
            let (sent, sent_epoch) = (Instant::now(), self.store.connection_epoch());
            let error = match self.store.release(key, request).await {
                Ok(ReleaseReply {
                    presence,
                    successor,
                }) => {
                    let reply = successor.map_or(Reply::Unsure(None), Reply::Acquire);
                    let answer = self.answer(sent, sent_epoch, reply);
                    let ended = match presence {
                        Presence::Gone if !repeats && Instant::now() < deadline => {
                            Err(Failure::Lost(LostReason::Gone))
                        }
                        Presence::Gone => Ok(()),
                        Presence::Present => {
                            events::released(key, hold);
                            Ok(())
                        }
                    };
                    return (ended, answer);
                }
                Err(error) => error,
            };
            let pause: Duration = pauses.next().unwrap_or_default();
            if error.effect() == Effect::Refused || Instant::now() + pause >= give_up {
                events::release_abandoned(key, hold, &error);
                let answer = self.answer(sent, sent_epoch, Reply::Unsure(Some(error.clone())));
                return (Err(Failure::Store(error)), answer);
            }
            events::release_retried(key, hold, &error);
            sleep(pause).await;
            // Given back only after the pause, so that the pauses of all together bound the rate; one
            // that is answered lets the next follow at once.
            repeats = true;
            drop(repetition.take());
            repetition = self.repetitions.acquire().await.ok();
        }
    }

    fn answer(&self, sent: Instant, sent_epoch: u64, reply: Reply) -> Answer {
        Answer {
            sent,
            sent_epoch,
            epoch: self.store.connection_epoch(),
            reply,
        }
    }
}

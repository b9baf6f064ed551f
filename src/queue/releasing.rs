//! The end of a hold. The hold is removed from its local queue and released, and is counted until that is done.

use std::sync::Arc;
use std::task::Waker;

use super::effects::{Effects, Ending};
use super::grant::Release;
use super::lines::{Alone, Slot};
use super::local_queues::LocalQueues;
use super::step::Input;
use crate::base::error::Failure;
use crate::base::id::HoldId;
use crate::base::key::LockKey;

impl LocalQueues {
    /// Ends a hold. Fails if the lock turns out to have been lost before. Also fails if it could not be released at all
    /// and is held until its lease expires.
    ///
    /// The release is sent at the first poll, and names the first waiter, which need not send a request before. If the
    /// future is dropped early, because its runtime ends, no waiter on another runtime waits for it.
    pub(crate) fn release(
        self: &Arc<Self>,
        key: &LockKey,
        release: Release,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let mut releasing = Releasing::new(self, key, release.hold);
        async move {
            let ending = releasing.queues.ending(&releasing.key, release);
            releasing.end(ending).await
        }
    }

    /// The keys of the locks whose release was given up, and whose leases may still be valid.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.requests.abandoned.names()
    }

    /// Removes a hold from its local queue.
    fn ending(&self, key: &LockKey, release: Release) -> Ending {
        let mut lines = self.lines.lock();
        match lines.of.get_mut(key) {
            Some(Slot::Line(_)) => {}
            Some(Slot::Alone(alone)) => {
                // Otherwise another hold has the lock, or requests it: this hold lost it before.
                alone.release(release.hold);
                return Ending::Alone(release);
            }
            None => return Ending::Alone(release),
        }
        let mut effects = Effects::default();
        lines.change(key, &mut effects, |line, effects| {
            self.step(key, line, Input::Release(release), effects);
        });
        drop(lines);
        let ending = effects.ending.take().unwrap_or(Ending::Alone(release));
        self.apply(key, effects, None);
        ending
    }

    /// Notes that a task will release a hold that has ended. A caller that makes only one attempt waits for that.
    pub(crate) fn ends_soon(&self, key: &LockKey, ended: HoldId) {
        let mut lines = self.lines.lock();
        if let Some(Slot::Alone(Alone::Held {
            hold, is_ending, ..
        })) = lines.of.get_mut(key)
        {
            *is_ending = *hold == ended;
        }
    }

    /// Notes that the first request of a release is answered, or there will be none: the lock may be free.
    fn released(&self, key: &LockKey, released: HoldId) {
        let mut lines = self.lines.lock();
        match lines.of.get(key) {
            Some(Slot::Alone(Alone::Releasing { hold, .. })) if *hold == released => {
                let slot = lines.of.remove(key);
                drop(lines);
                slot.into_iter().flat_map(Slot::tries).for_each(Waker::wake);
            }
            _ => {
                drop(lines);
                self.input(key, Input::MaybeFree);
            }
        }
    }

    /// Continues the end of a hold.
    pub(super) fn finish(
        self: &Arc<Self>,
        key: &LockKey,
        ending: Ending,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let mut releasing = Releasing::new(self, key, ending.hold());
        async move { releasing.end(ending).await }
    }
}

/// The release of a hold, for the task that polls it.
struct Releasing {
    queues: Arc<LocalQueues>,
    key: LockKey,
    hold: HoldId,
    /// The end of the hold, when it is known.
    ending: Option<Ending>,
    has_ended: bool,
}

impl Releasing {
    fn new(queues: &Arc<LocalQueues>, key: &LockKey, hold: HoldId) -> Self {
        queues.activity().begin();
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            hold,
            ending: None,
            has_ended: false,
        }
    }

    fn end(&mut self, ending: Ending) -> impl Future<Output = Result<(), Failure>> + Send {
        let ending = self.ending.insert(ending);
        let (queues, key) = (&self.queues, &self.key);
        let (requests, has_ended) = (&queues.requests, &mut self.has_ended);
        async move {
            let ended = match ending {
                // The flight itself passes the answer to the local queue.
                Ending::HandingOver(_, flight) => flight.await,
                Ending::Alone(release) => {
                    let hold = release.hold;
                    let answered = || queues.released(key, hold);
                    let (ended, _) = requests.release(key, release, None, answered).await;
                    // This is for a release that was repeated.
                    queues.input(key, Input::MaybeFree);
                    ended
                }
            };
            *has_ended = true;
            ended
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if !self.has_ended {
            self.ending = None;
            // This release will not bring the lock to the first waiter.
            self.queues.input(&self.key, Input::Lost(self.hold));
            self.queues.released(&self.key, self.hold);
            self.queues.desert(&self.key);
        }
        self.queues.activity().end();
    }
}

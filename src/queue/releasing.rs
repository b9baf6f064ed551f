//! The end of a hold. The hold is removed from its local queue and released, and is counted until that is done.

use std::sync::Arc;
use std::task::Waker;

use super::grant::Release;
use super::lines::{Alone, Slot};
use super::local_queues::LocalQueues;
use super::step::Input;
use crate::base::error::Failure;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::write_signal::WriteSignal;

impl LocalQueues {
    /// Ends a hold. Fails if the lock turns out to have been lost before. Also fails if it could not be released at all
    /// and is held until its lease expires.
    ///
    /// The release is sent at the first poll, and the request of the first waiter right behind it. `written` is set when
    /// the release was written.
    pub(crate) fn release(
        self: &Arc<Self>,
        key: &LockKey,
        release: Release,
        written: Option<WriteSignal>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let releasing = Releasing::new(self, key, release.hold);
        async move {
            let Releasing { queues, key, hold } = &releasing;
            queues.ended(key, *hold);
            let answered = || queues.released(key, *hold);
            let released = queues.requests.release(key, &release, written, answered);
            released.await
        }
    }

    /// The keys of the locks whose release was given up, and whose leases may still be valid.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.requests.abandoned.names()
    }

    /// Removes a hold from its local queue.
    fn ended(&self, key: &LockKey, hold: HoldId) {
        let mut lines = self.lines.lock();
        if let Some(Slot::Alone(alone)) = lines.of.get_mut(key) {
            // Otherwise another hold has the lock, or requests it: this hold lost it before.
            alone.release(hold);
            return;
        }
        drop(lines);
        self.input(key, Input::Release(hold));
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
            Some(Slot::Line(_) | Slot::Alone(Alone::Held { .. })) => {
                drop(lines);
                self.input(key, Input::Released(released));
            }
            // The request of a lone caller was sent behind the release, and finds what the release has done.
            Some(Slot::Alone(_)) | None => {}
        }
    }

    /// Releases a hold that was removed from its local queue.
    pub(super) fn finish(
        self: &Arc<Self>,
        key: &LockKey,
        release: Release,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let releasing = Releasing::new(self, key, release.hold);
        async move {
            let Releasing { queues, key, hold } = &releasing;
            let answered = || queues.released(key, *hold);
            let released = queues.requests.release(key, &release, None, answered);
            released.await
        }
    }
}

/// Counts a release, and reports its end to the local queue, also if the task that polls it ends.
struct Releasing {
    queues: Arc<LocalQueues>,
    key: LockKey,
    hold: HoldId,
}

impl Releasing {
    fn new(queues: &Arc<LocalQueues>, key: &LockKey, hold: HoldId) -> Self {
        queues.in_flight().begin();
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            hold,
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        // This is for a release that was repeated, or given up.
        self.queues.released(&self.key, self.hold);
        self.queues.in_flight().end();
    }
}

//! The end of a hold: it is taken out of its line and released, and is counted until that is done.

use std::sync::Arc;

use super::{
    effects::{Effects, Ending},
    lines::{Alone, Slot},
    local_queues::LocalQueues,
    request::Flight,
    step::{Input, Release},
};
use crate::base::{error::Failure, id::HoldId, key::LockKey};

impl LocalQueues {
    /// Ends a hold. Fails if the lock turns out to have been lost before, or if it could not be released
    /// at all and stands until its lease ends.
    ///
    /// The release is sent when this is polled first: then it names the first waiter, who has no need to ask
    /// until then. Should this be dropped before its end, since its runtime ends, then no waiter of another
    /// one waits for it.
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

    /// The keys of the locks that are not released any more, and whose leases may last.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.requests.abandoned.names()
    }

    /// Takes a hold out of its line.
    pub(super) fn ending(&self, key: &LockKey, release: Release) -> Ending {
        let mut effects = Effects::default();
        let mut lines = self.lines.lock();
        match lines.of.get(key) {
            Some(Slot::Line(_)) => self.work(key, &mut lines, &mut effects, |line, effects| {
                self.step(key, line, Input::Release(release), effects);
            }),
            Some(Slot::Alone(Alone::Held { hold, .. })) if *hold == release.hold => {
                lines.of.remove(key);
                return Ending::Alone(release);
            }
            // Another hold has the lock, or asks for it: this one has lost it before.
            _ => return Ending::Alone(release),
        }
        drop(lines);
        let ending = effects.ending.take().unwrap_or(Ending::Alone(release));
        self.apply(key, effects, None);
        ending
    }

    /// Goes on with the end of a hold.
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
pub(super) struct Releasing {
    queues: Arc<LocalQueues>,
    key: LockKey,
    hold: HoldId,
    flight: Option<Flight>,
    pub(super) has_ended: bool,
}

impl Releasing {
    pub(super) fn new(queues: &Arc<LocalQueues>, key: &LockKey, hold: HoldId) -> Self {
        queues.activity().begin();
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            hold,
            flight: None,
            has_ended: false,
        }
    }

    pub(super) async fn end(&mut self, ending: Ending) -> Result<(), Failure> {
        let Self { queues, key, .. } = &*self;
        let ended = match ending {
            Ending::Alone(release) => {
                let (ended, _) = queues.requests.release(key, release, None).await;
                queues.input(key, Input::MaybeFree);
                ended
            }
            Ending::HandingOver(_, flight) => self.flight.insert(flight).await,
        };
        self.has_ended = true;
        ended
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if !self.has_ended {
            self.flight = None;
            // It is not by this that the first waiter will get the lock.
            self.queues.input(&self.key, Input::Lost(self.hold));
            self.queues.desert(&self.key);
        }
        self.queues.activity().end();
    }
}

//! The end of a hold. The hold is taken out of its line and released, and is counted until that is done.

use std::mem;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::effects::{Effects, Ending};
use super::grant::Release;
use super::lines::{Alone, Slot};
use super::local_queues::LocalQueues;
use super::request::Part;
use super::step::Input;
use crate::base::error::Failure;
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::sync::Mutex;

/// Holds that are released together. All are taken out of their lines when the release of the first of them is polled.
pub(crate) struct Together {
    holds: Arc<Mutex<Vec<(LockKey, Release)>>>,
    endings: Shared<BoxFuture<'static, Arc<[Ending]>>>,
}

impl LocalQueues {
    /// Ends a hold. Fails if the lock turns out to have been lost before, or if it could not be released at all and is
    /// held until its lease expires.
    ///
    /// The release is sent at the first poll, and names the first waiter, which need not ask before. If the future is
    /// dropped early, because its runtime ends, no waiter on another runtime waits for it.
    /// one waits for it.
    pub(crate) fn release(
        self: &Arc<Self>,
        key: &LockKey,
        release: Release,
        together: Option<&Together>,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        let mut releasing = Releasing::new(self, key, release.hold);
        // Boxed, since it is rare.
        let together = together.map(|together| together.add(key, release).boxed());
        async move {
            let ending = match together {
                None => releasing.queues.ending(&releasing.key, release),
                Some(ending) => ending.await,
            };
            releasing.end(ending).await
        }
    }

    /// Makes a release of several holds. If no caller waits for their locks, one request releases them.
    pub(crate) fn together(self: &Arc<Self>) -> Together {
        let holds = Arc::<Mutex<Vec<(LockKey, Release)>>>::default();
        let (queues, ended) = (Arc::clone(self), Arc::clone(&holds));
        let endings = async move {
            let ended = mem::take(&mut *ended.lock());
            let endings = ended
                .iter()
                .map(|(key, release)| queues.ending(key, *release));
            let mut endings: Vec<_> = endings.collect();
            queues.join(&ended, &mut endings);
            endings.into()
        };
        let endings = endings.boxed().shared();
        Together { holds, endings }
    }

    /// Gives a common request to the ends of holds of which only the field can be in the store.
    fn join(&self, ended: &[(LockKey, Release)], endings: &mut [Ending]) {
        let is_short = |ending: &Ending| match ending {
            Ending::Alone(release) => self.requests.is_short(release),
            Ending::HandingOver(..) | Ending::Part(..) => false,
        };
        let short = ended.iter().zip(endings);
        let short: Vec<_> = short.filter(|(_, ending)| is_short(ending)).collect();
        if short.len() < 2 {
            return;
        }
        let holds = short
            .iter()
            .map(|((key, release), _)| (key.clone(), release.hold));
        let asked = self.requests.release_all(holds.collect());
        for (index, ((_, release), ending)) in short.into_iter().enumerate() {
            let asked = asked.clone();
            *ending = Ending::Part(*release, Part { asked, index });
        }
    }

    /// The keys of the locks whose release was given up, and whose leases may last.
    pub(crate) fn abandoned(&self) -> Vec<String> {
        self.requests.abandoned.names()
    }

    /// Takes a hold out of its line.
    fn ending(&self, key: &LockKey, release: Release) -> Ending {
        let mut lines = self.lines.lock();
        match lines.of.get(key) {
            Some(Slot::Line(_)) => {}
            Some(Slot::Alone(Alone::Held { hold, .. })) if *hold == release.hold => {
                lines.of.remove(key);
                return Ending::Alone(release);
            }
            // Another hold has the lock, or asks for it: this one lost it before.
            _ => return Ending::Alone(release),
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
    /// How the hold ends, once that is known.
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
        let requests = &queues.requests;
        async {
            let ended = match ending {
                // The flight itself brings the answer to the line.
                Ending::HandingOver(_, flight) => flight.await,
                Ending::Alone(release) => {
                    let (ended, _) = requests.release(key, release, None).await;
                    queues.input(key, Input::MaybeFree);
                    ended
                }
                Ending::Part(release, part) => {
                    let ended = requests.release_part(key, release, part).await;
                    queues.input(key, Input::MaybeFree);
                    ended
                }
            };
            self.has_ended = true;
            ended
        }
    }
}

impl Together {
    /// Adds a hold. Returns how it ends.
    fn add(&self, key: &LockKey, release: Release) -> impl Future<Output = Ending> + Send + use<> {
        let at = {
            let mut holds = self.holds.lock();
            holds.push((key.clone(), release));
            holds.len() - 1
        };
        let endings = self.endings.clone();
        // The endings include each hold that was added before their first poll.
        async move {
            endings
                .await
                .get(at)
                .cloned()
                .unwrap_or(Ending::Alone(release))
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if !self.has_ended {
            self.ending = None;
            // This release will not bring the lock to the first waiter.
            self.queues.input(&self.key, Input::Lost(self.hold));
            self.queues.desert(&self.key);
        }
        self.queues.activity().end();
    }
}

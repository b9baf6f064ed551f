//! The requests of all searches of one `Locks`. They travel together, and a lookup that several searches need is made
//! once.
//!
//! A request is made in the turn of the runtime in which the first search wants it, together with what other searches
//! want in that turn. The removal of a record is not urgent: it is sent with later requests, or soon by itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::published::PublishedCount;
use super::walk::{Sight, WalkQuestion};
use super::wanted::{Caller, Change, Due, Span, Unanswered, Wanted, answered, batches};
use crate::base::id::{HoldId, OwnerId};
use crate::base::sync::{Mutex, after_others};
use crate::base::timer::sleep;
use crate::store::records::{SeenWaits, WaitAnswer};
use crate::store::{ChangeWaits, HoldsIn, PublishWait, Store, StoreTime, WaitChange, WaitsOf};

/// The number of moments in a period at which records are written again, so that those of one moment travel together.
pub(super) const MOMENTS: u32 = 16;

/// The state that the searches of one `Locks` share.
#[derive(Debug)]
pub(crate) struct Searches {
    store: Arc<Store>,
    pub(super) published: Arc<PublishedCount>,
    /// The instant from which the moments are counted.
    began: Instant,
    /// The wanted requests, separately for each runtime, so that a caller that waits for an answer depends on no other
    /// runtime.
    wanted: Mutex<HashMap<runtime::Id, Wanted>>,
    known: Mutex<HashMap<Span, KnownTime>>,
}

/// A time of the store that was read on a connection.
#[derive(Clone, Copy, Debug)]
struct KnownTime {
    at: StoreTime,
    epoch: u64,
}

impl Searches {
    pub(crate) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self {
            store,
            published: Arc::default(),
            began: Instant::now(),
            wanted: Mutex::default(),
            known: Mutex::default(),
        })
    }

    /// The last moment of this period that is not later than `due`.
    pub(super) fn moment(&self, due: Instant, period: Duration) -> Instant {
        let step = (period / MOMENTS).as_nanos();
        let passed = due.saturating_duration_since(self.began).as_nanos();
        let beyond = passed.checked_rem(step).unwrap_or_default();
        let beyond = u64::try_from(beyond).map_or(Duration::ZERO, Duration::from_nanos);
        due.checked_sub(beyond).unwrap_or(due)
    }

    /// A time of the store that has the records of this owner, if one is known.
    pub(super) fn known(&self, owner: OwnerId) -> Option<StoreTime> {
        let known = self.known.lock();
        let known = known.get(&self.store.span_of_waits(owner))?;
        // Another server, with another clock, may answer by now.
        (known.epoch == self.store.connection_epochs()).then_some(known.at)
    }

    /// Publishes a wait.
    pub(super) fn publish(
        self: &Arc<Self>,
        publish: PublishWait,
    ) -> impl Future<Output = Result<WaitAnswer, Unanswered>> + use<> {
        let (caller, answer) = oneshot::channel();
        let change = Change {
            change: WaitChange::Publish(publish),
            caller: Some(caller),
        };
        self.want(&Handle::current(), Due::Now, |wanted| {
            wanted.changes.push(change);
        });
        answered(answer)
    }

    /// Makes a lookup.
    pub(super) fn look(
        self: &Arc<Self>,
        question: WalkQuestion,
    ) -> impl Future<Output = Result<Sight, Unanswered>> + use<> {
        let (caller, answer) = oneshot::channel();
        self.want(&Handle::current(), Due::Now, |wanted| {
            wanted.looks.entry(question).or_default().push(caller);
        });
        answered(answer)
    }

    /// Removes records, in the background. If that fails, they expire.
    pub(super) fn withdraw(
        self: &Arc<Self>,
        runtime: &Handle,
        within: Duration,
        records: impl Iterator<Item = (OwnerId, HoldId)>,
    ) {
        let records = records.map(|(owner, wait)| Change {
            change: WaitChange::Withdraw { owner, wait },
            caller: None,
        });
        self.want(runtime, Due::Soon(within), |wanted| {
            wanted.changes.extend(records);
        });
    }

    fn want(self: &Arc<Self>, runtime: &Handle, due: Due, add: impl FnOnce(&mut Wanted)) {
        let is_sooner = {
            let mut wanted = self.wanted.lock();
            let wanted = wanted.entry(runtime.id()).or_default();
            add(wanted);
            wanted.bring_forward(due)
        };
        if is_sooner {
            let sending = Sending {
                due,
                runtime: runtime.id(),
                searches: Some(Arc::clone(self)),
            };
            drop(runtime.spawn(sending.run()));
        }
    }

    /// Makes these requests.
    async fn make(&self, wanted: Wanted) {
        let span = |change: &WaitChange| self.store.span_of_waits(change.owner());
        let changes = batches(wanted.changes, span).into_iter();
        let changes = changes.map(|(span, batch)| self.change(span, batch));
        let looks = wanted.looks.into_iter();
        let looks = looks.map(|(question, callers)| self.look_for(question, callers));
        join(join_all(changes), join_all(looks)).await;
    }

    /// Makes one request for several changes.
    async fn change(&self, span: Span, batch: Vec<Change>) {
        let epoch = self.store.connection_epochs();
        let (changes, callers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|it| (it.change, it.caller)).unzip();
        let answers = self.store.ask(ChangeWaits(changes)).await;
        if let Ok(answers) = &answers
            && let Some(answer) = answers.last()
        {
            let (WaitAnswer::Done(at) | WaitAnswer::Late(at)) = *answer;
            self.known.lock().insert(span, KnownTime { at, epoch });
        }
        for (at, caller) in callers.into_iter().enumerate() {
            let answer = match &answers {
                Ok(answers) => answers.get(at).copied().map(Ok),
                Err(error) => Some(Err(error.clone())),
            };
            // The search may have ended.
            let _ = caller
                .zip(answer)
                .map(|(caller, answer)| caller.send(answer));
        }
    }

    /// Makes a lookup for all searches that want it.
    async fn look_for(&self, question: WalkQuestion, callers: Vec<Caller<Sight>>) {
        let asked = Instant::now();
        let sight = match &question {
            WalkQuestion::Holds(key) => {
                let key = Arc::clone(key);
                self.store.ask(HoldsIn { key }).await.map(Sight::Holds)
            }
            WalkQuestion::Waits(hold) => {
                let look = self.store.ask(WaitsOf { hold: *hold }).await;
                look.map(|look| Sight::Waits(look, asked))
            }
        };
        let sight = match sight {
            // What the user may not read counts as absent.
            Err(error) if error.is_refused() => Ok(question.nothing(asked)),
            sight => sight,
        };
        for caller in callers {
            drop(caller.send(sight.clone()));
        }
    }
}

/// The task that makes the wanted requests of a runtime.
struct Sending {
    due: Due,
    runtime: runtime::Id,
    /// The wanted requests; `None` after they were taken.
    searches: Option<Arc<Searches>>,
}

impl Sending {
    async fn run(mut self) {
        match self.due {
            Due::Soon(within) => sleep(within).await,
            Due::Now => after_others().await,
        }
        if let Some(searches) = self.searches.take() {
            let wanted = searches.wanted.lock().remove(&self.runtime);
            if let Some(wanted) = wanted {
                searches.make(wanted).await;
            }
        }
    }
}

/// Fails the wanted requests if the runtime ends first: the searches learn that there will be no answer.
impl Drop for Sending {
    fn drop(&mut self) {
        let Some(searches) = &self.searches else {
            return;
        };
        let left = {
            let mut wanted = searches.wanted.lock();
            let is_due = |wanted: &Wanted| wanted.is_due(self.due);
            let is_due = wanted.get(&self.runtime).is_some_and(is_due);
            is_due.then(|| wanted.remove(&self.runtime))
        };
        // Dropping them wakes their callers.
        drop(left);
    }
}

impl WalkQuestion {
    /// The answer if the user may not read the key.
    fn nothing(&self, asked: Instant) -> Sight {
        match self {
            Self::Holds(_) => Sight::Holds(Vec::new()),
            Self::Waits(_) => {
                let at = StoreTime { micros: 0 };
                let waits = Vec::new();
                Sight::Waits(SeenWaits { at, waits }, asked)
            }
        }
    }
}

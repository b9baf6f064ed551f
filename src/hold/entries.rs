//! The entries of several keys that one acquisition has made.

use std::{fmt, pin::Pin, sync::Arc};

use futures_util::future::{join_all, select_all};
use tokio::runtime::Handle;

use crate::{
    base::{
        background::Handover,
        error::{Failure, LockError},
        span::Span,
        timer::timeout,
    },
    hold::{
        abort::must_abort,
        entry::{Entry, Left, Won},
        exit::Occupant,
        group::Group,
        hold::{CallGraph, Hold},
        renewals::RenewalSchedule,
    },
};

/// The entries up to now, in the order in which they were made. Dropping it takes one level off each of them in the
/// background.
pub(crate) struct Entries {
    entries: Vec<Entry>,
    /// The hold of each of them.
    holds: Vec<Arc<Hold>>,
    /// What ties together the holds that it has begun; `None` where there is but one to begin.
    group: Option<Arc<Group<Hold>>>,
}

/// What is left to do when all have left.
type Outcomes = Vec<(Arc<Hold>, Result<(), Failure>)>;

impl Entries {
    /// The entries of an acquisition that enters these holds once more.
    pub(crate) fn new(nested: Vec<Entry>) -> Self {
        let holds = nested.iter().map(|entry| Arc::clone(entry.hold()));
        Self {
            holds: holds.collect(),
            entries: nested,
            group: None,
        }
    }

    /// The holds that it begins from now on are renewed together, and are lost together.
    pub(crate) fn tie(&mut self) {
        self.group = Some(Group::new());
    }

    /// Enters a lock that was won; see [`Entry::outermost`].
    pub(crate) fn enter(&mut self, won: Won<'_>, place: (&Arc<RenewalSchedule>, &Handle)) {
        let entry = Entry::outermost(won, self.group.clone(), place);
        self.holds.push(Arc::clone(entry.hold()));
        self.entries.push(entry);
    }

    /// A guard has them from now on.
    pub(crate) fn keep(&mut self) {
        self.entries.iter_mut().for_each(Entry::keep);
    }

    /// The call graph of the last hold.
    pub(crate) fn graph(&self) -> Option<CallGraph> {
        self.holds.last().map(Hold::graph)
    }

    /// The holds, each of which is there once.
    pub(crate) fn holds(&self) -> &[Arc<Hold>] {
        &self.holds
    }

    /// Around what is done under those that it has begun.
    pub(crate) fn span(&self) -> Span {
        // They have one.
        self.entries.last().map(Entry::span).unwrap_or_default()
    }

    /// How the first of them was lost, if that is to end what is done under it.
    pub(crate) fn lost(&self) -> Option<LockError> {
        must_abort(&self.holds)
    }

    /// Does the work, unless one of the locks is lost meanwhile that it has already.
    pub(crate) async fn unless_lost<T>(
        &self,
        work: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        if self.holds.is_empty() {
            return work.await;
        }
        let lost = self.holds.iter().map(|hold| {
            let hold = Arc::clone(hold);
            Box::pin(async move { hold.lost_error(hold.until_lost().await) })
        });
        tokio::select! {
            biased;
            (error, ..) = select_all(lost) => Err(error),
            done = work => done,
        }
    }

    /// Takes one level off each of them. Waits for the store, but no longer than the response timeout: then the work
    /// goes on in the background (P13).
    ///
    /// Fails as the first of them fails.
    pub(crate) fn exit(mut self) -> Exits {
        let Some(renewals) = self
            .entries
            .first()
            .map(|entry| Arc::clone(entry.renewals()))
        else {
            return Box::pin(async { Ok(()) });
        };
        let work = join_all(self.leave());
        let limit = renewals.response_timeout();
        // It wakes with the answer to its first request.
        let within = |hold: &Arc<Hold>| renewals.store().answers_within(hold.key());
        let is_answered = self.holds.iter().all(|hold| within(hold) <= limit);
        let limited = timeout(limit, work).sparing(is_answered, |_| true);
        Box::pin(async move {
            let Ok(outcomes) = limited.await else {
                self.holds.iter().for_each(|hold| hold.note_unanswered());
                return Ok(());
            };
            let outcomes = outcomes.into_iter().flatten();
            let failures = outcomes.filter_map(|(hold, left)| hold.outcome(left).err());
            // A loss matters more than what a store refuses.
            match failures.min_by_key(|error| !error.is_lost()) {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
    }

    /// Takes one level off each of them. The holds that end so are released together.
    fn leave(&mut self) -> Vec<Handover<Outcomes>> {
        let (mut works, mut ended, mut place) = (Vec::new(), Vec::new(), None);
        for mut entry in self.entries.drain(..) {
            let hold = Arc::clone(entry.hold());
            match entry.take_off() {
                Left::Level(None) => {}
                Left::Level(Some(work)) => {
                    let runtime = entry.renewals().runtime(&hold);
                    let work = async move { vec![(hold, work.await)] };
                    works.push(Handover::new(runtime, Span::default(), work));
                }
                Left::Hold(release, runtime) => {
                    ended.push((hold, release));
                    place.get_or_insert_with(|| (Arc::clone(entry.renewals()), runtime));
                }
            }
        }
        if let Some((renewals, runtime)) = place {
            let releases = ended
                .iter()
                .map(|(hold, release)| (hold.key().clone(), *release));
            let releasing = renewals.queues().release_all(releases.collect());
            // Each release is counted for itself from now on.
            let activity = renewals.queues().activity();
            ended.iter().for_each(|_| activity.end());
            let span = ended
                .last()
                .map(|(hold, _)| hold.span())
                .unwrap_or_default();
            works.push(Handover::new(runtime, span, async move {
                let holds = ended.into_iter().map(|(hold, _)| hold);
                let released = holds.zip(releasing.await);
                let released = released.inspect(|(hold, released)| {
                    hold.found(released);
                    hold.end_span();
                });
                released.collect()
            }));
        }
        works
    }
}

/// The future of [`Entries::exit`].
pub(crate) type Exits = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

impl Drop for Entries {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.holds).finish()
    }
}

//! One level of the holds that an acquisition has entered, with how they are entered and left.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, mem};

use futures_util::FutureExt;
use tokio::runtime::Handle;

use crate::base::error::{Failure, LockError};
use crate::base::events;
use crate::base::key::LockKey;
use crate::base::option_types::Mode;
use crate::base::options::Terms;
use crate::base::span::Span;
use crate::hold::abort::must_abort;
use crate::hold::depth::Remains;
use crate::hold::depth_mirror::DepthMirror;
use crate::hold::exit::Exit;
use crate::hold::group::Group;
use crate::hold::hold::{CallGraph, Hold, Holds};
use crate::hold::renewals::RenewalSchedule;
use crate::queue::Grant;

#[cfg(test)]
mod tests;

/// One entry of each hold, in the order in which they were made: first those of holds that enclosing calls began.
/// Dropping it removes one level from each of them in the background.
pub(crate) struct Entry {
    holds: Holds,
    /// The number of holds that it began.
    begun: usize,
    renewals: Arc<RenewalSchedule>,
    /// Whether it belongs to a guard.
    is_guards: bool,
}

impl Entry {
    /// An entry that has no hold yet.
    #[inline]
    pub(crate) fn new(renewals: &Arc<RenewalSchedule>) -> Self {
        Self {
            holds: Holds::new(),
            begun: 0,
            renewals: Arc::clone(renewals),
            is_guards: false,
        }
    }

    /// Enters a lock that was acquired. It is renewed from now on, on this runtime. The locks of a group are renewed
    /// together.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        grant: Grant,
        key: &LockKey,
        graph: CallGraph,
        terms: Terms,
        group: Option<&Arc<Group<Hold>>>,
        runtime: &Handle,
    ) -> &Arc<Hold> {
        let hold = Hold::new(grant, key, graph, terms, group.cloned(), runtime.id());
        self.renewals.queues().activity().begin();
        let at = self.holds.len();
        // From here on, any panic ends the hold.
        self.holds.push(hold);
        self.begun += 1;
        let hold = &self.holds[at];
        self.renewals.push(hold, runtime);
        if grant.depth.depth != Some(1) {
            // The last change of the previous call graph was not answered.
            self.mirror_now(hold);
        }
        hold
    }

    /// Forgets the holds that it began, which were given up.
    pub(crate) fn forget_begun(&mut self) {
        let reentered = self.holds.len() - self.begun;
        self.holds.truncate(reentered);
        self.begun = 0;
    }

    /// Enters a hold of an enclosing call once more. A hold that has ended cannot be re-entered, and is left out.
    pub(crate) fn reenter(&mut self, hold: Arc<Hold>, ttl: Option<Duration>) {
        if hold.deepen(ttl) {
            self.holds.push(hold);
        }
    }

    /// Sends the new depths of the holds that were entered once more, and waits for no response.
    pub(crate) fn reentered(&self) -> Result<(), LockError> {
        for hold in &self.holds {
            if let Some(reason) = hold.lost() {
                return Err(hold.error(Failure::Lost(reason)));
            }
            self.mirror_now(hold);
            events::reentered(hold.key(), hold.id(), || hold.depth());
        }
        Ok(())
    }

    /// Notes that it belongs to a guard from now on.
    pub(crate) fn give_to_guard(&mut self) {
        self.is_guards = true;
        self.holds.iter().for_each(|hold| hold.add_guard());
    }

    /// The holds, each of them once.
    pub(crate) fn holds(&self) -> &[Arc<Hold>] {
        &self.holds
    }

    /// The holds that it began.
    #[inline]
    pub(crate) fn begun(&self) -> &[Arc<Hold>] {
        &self.holds[self.holds.len() - self.begun..]
    }

    /// Opens the span of the holds that it began.
    #[inline]
    pub(crate) fn trace(&self, keys: &[LockKey], mode: Mode) {
        let begun = self.begun();
        if let Some(first) = begun.first() {
            let span = Span::hold(keys, mode, first.id(), first.token());
            begun.iter().for_each(|hold| hold.set_span(span.clone()));
        }
    }

    /// The span around what is done under the holds that it began; none if it only re-entered holds of others.
    pub(crate) fn span(&self) -> Span {
        // They share one span.
        self.begun()
            .last()
            .map(|hold| hold.span())
            .unwrap_or_default()
    }

    /// The loss of the first lock among them, if it must end what is done under them.
    pub(crate) fn lost(&self) -> Option<LockError> {
        must_abort(&self.holds)
    }

    /// Removes one level from each hold. The holds that end this way are released together.
    #[inline]
    pub(crate) fn exit(mut self) -> Exit {
        self.leave()
    }

    #[inline]
    fn leave(&mut self) -> Exit {
        let holds = mem::take(&mut self.holds);
        let left = holds.iter().map(|hold| {
            let remains = hold.lessen(self.is_guards.into());
            if remains == Remains::Something {
                self.mirror_later(hold);
            }
            (hold, remains)
        });
        Exit::new(left, &self.renewals)
    }

    /// Updates the store to the wanted depth. The first change is sent before this function returns.
    fn mirror_now(&self, hold: &Arc<Hold>) {
        if let Some(mirror) = DepthMirror::of(hold, self.renewals.queues()) {
            let mut run = Box::pin(mirror.run());
            if (&mut run).now_or_never().is_none() {
                self.spawn(hold, run);
            }
        }
    }

    /// Lets a task update the store to the wanted depth. An entry may be dropped where no timer can be armed, so
    /// nothing is polled here.
    fn mirror_later(&self, hold: &Arc<Hold>) {
        if let Some(mirror) = DepthMirror::of(hold, self.renewals.queues()) {
            self.spawn(hold, mirror.run());
        }
    }

    /// Without a runtime, the work is dropped, and the next entry or exit begins it again.
    fn spawn(&self, hold: &Arc<Hold>, work: impl Future<Output = ()> + Send + 'static) {
        let runtime = self.renewals.runtime(hold);
        if let Some(runtime) = runtime.or_else(|| Handle::try_current().ok()) {
            drop(runtime.spawn(work));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.leave().continue_in_background(self.renewals.queues());
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("holds", &self.holds)
            .finish_non_exhaustive()
    }
}

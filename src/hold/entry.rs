//! One level of the holds that an acquisition has entered, with how they are entered and left.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime::Handle;

use crate::base::error::LockError;
use crate::base::events;
use crate::base::key::LockKey;
use crate::base::options::{LockOptions, Mode};
use crate::base::span::Span;
use crate::hold::core::Core;
use crate::hold::depth_mirror::{mirror_later, mirror_now};
use crate::hold::exit::Exit;
use crate::hold::held::Held;
use crate::hold::hold::{CallGraph, EntryKind, Group, Hold, Holds};
use crate::hold::scope::{Frame, HeldLocks};
use crate::queue::Grant;

#[cfg(test)]
mod tests;

/// The entries of a body: one, or for work that has left its task one for each lock around it, beginning with the
/// outermost.
pub(crate) type BodyEntries = SmallVec<[Entry; 1]>;

/// One entry of each hold, in the order in which they were made: first those of holds that enclosing calls began.
/// Dropping it leaves each of them in the background.
pub(crate) struct Entry {
    holds: Holds,
    /// The number of holds that it began.
    begun: usize,
    core: Arc<Core>,
    kind: EntryKind,
}

impl Entry {
    /// An entry that has no hold yet.
    #[inline]
    pub(crate) fn new(core: &Arc<Core>, kind: EntryKind) -> Self {
        Self {
            holds: Holds::new(),
            begun: 0,
            core: Arc::clone(core),
            kind,
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
        terms: &LockOptions,
        group: Option<&Arc<Group>>,
        runtime: &Handle,
    ) -> &Arc<Hold> {
        let hold = Hold::new(grant, key, graph, terms, group.cloned(), runtime.id());
        // Counted before it is in the entry, because whatever takes it out of there counts down.
        self.core.queues.in_flight.begin();
        let at = self.holds.len();
        // From here on, any panic ends the hold.
        self.holds.push(hold);
        self.begun += 1;
        let hold = &self.holds[at];
        self.core.schedule(hold, runtime);
        if grant.depth.depth != Some(1) {
            // The last change of the previous call graph was not answered.
            mirror_now(hold, &self.core);
        }
        hold
    }

    /// Forgets the holds that it began, which were given up.
    pub(crate) fn forget_begun(&mut self) {
        // They are only forgotten, and not left once more: what gave them up has left and ended them. They are the last
        // ones.
        let reentered = self.holds.len() - self.begun;
        self.holds.truncate(reentered);
        self.begun = 0;
    }

    /// Enters a hold of an enclosing call once more. A hold that has ended cannot be re-entered, and is left out.
    pub(crate) fn reenter(&mut self, hold: &Arc<Hold>, ttl: Option<Duration>) {
        if hold.enter(self.kind, ttl) {
            self.holds.push(Arc::clone(hold));
        }
    }

    /// Sends the new depths of the holds that were entered once more, and waits for no response. Fails if one of them
    /// is lost.
    pub(crate) fn send_depths(&self) -> Result<(), LockError> {
        for hold in &self.holds {
            // A lock that is lost must not be entered. The caller drops the entry after this error, which leaves all of
            // them.
            if let Some(reason) = hold.check_loss() {
                return Err(hold.lost_error(reason));
            }
            mirror_now(hold, &self.core);
            events::reentered(hold.key(), hold.id(), || hold.depth());
        }
        Ok(())
    }

    /// Notes that it belongs to a guard from now on.
    pub(crate) fn convert_to_guard(&mut self) {
        // An entry leaves each hold as what it is counted there, so both change.
        self.kind = EntryKind::Guard;
        for hold in &self.holds {
            hold.change(|state| state.depth.convert_to_guard());
        }
    }

    /// Keeps the locks that it began for at least this time after their acquisition, whenever their holder leaves. A
    /// member waits for the end of that time, so until then the hold is renewed and counted like any other.
    pub(crate) fn begin_min_hold(&self, min_hold: Duration, runtime: &Handle) {
        for hold in self.begun() {
            let end = hold.begin_min_hold(min_hold);
            // It enters here, and not in the task, so that the hold cannot end before the task runs. If the runtime
            // ends, the task is dropped, and the member leaves.
            let mut member = Self::new(&self.core, EntryKind::Member);
            member.reenter(hold, None);
            let hold = Arc::clone(hold);
            drop(runtime.spawn(async move {
                hold.await_min_hold_end(end).await;
                // The last one to leave releases the lock in the ordinary way, which informs those who wait.
                drop(member);
            }));
        }
    }

    /// The holds, each of them once.
    pub(crate) fn holds(&self) -> &[Arc<Hold>] {
        &self.holds
    }

    /// Its locks, as code inside them sees them.
    #[inline]
    pub(crate) fn held(&self) -> HeldLocks {
        let held = self.holds.iter().map(|hold| Held {
            hold: Arc::clone(hold),
            core: Arc::downgrade(&self.core),
        });
        held.collect()
    }

    /// A frame for a body under its locks.
    #[inline]
    pub(crate) fn frame(&self) -> Arc<Frame> {
        Frame::new(self.held())
    }

    #[inline]
    pub(crate) fn begun(&self) -> &[Arc<Hold>] {
        &self.holds[self.holds.len() - self.begun..]
    }

    /// Opens the span of the holds that it began.
    #[inline]
    pub(crate) fn open_span(&self, keys: &[LockKey], mode: Mode) {
        let begun = self.begun();
        if let Some(first) = begun.first() {
            let span = Span::hold(keys, mode, first.id(), first.token());
            begun.iter().for_each(|hold| hold.set_span(span.clone()));
        }
    }

    /// The span around what is done under the holds that it began; none if it only re-entered holds of others.
    pub(crate) fn span(&self) -> Span {
        // They share one span.
        let last = self.begun().last();
        last.map(|hold| hold.span()).unwrap_or_default()
    }

    /// Leaves each hold. Those that end this way are released together, and the exit waits for the answers.
    #[inline]
    pub(crate) fn exit(mut self) -> Exit {
        let mut exit = Exit::default();
        self.leave(&mut exit);
        exit
    }

    /// Leaves the holds of several entries. The exit waits until the releases are written.
    pub(crate) fn exit_all(mut entries: BodyEntries) -> Exit {
        let mut exit = Exit::without_answers();
        entries.iter_mut().for_each(|entry| entry.leave(&mut exit));
        exit
    }

    #[inline]
    fn leave(&mut self, exit: &mut Exit) {
        // They are taken from the back, so that those that are left after a panic are still in the entry.
        self.holds.reverse();
        // If one of them panics, the others are left when the entry is dropped.
        while let Some(hold) = self.holds.pop() {
            if hold.leave(self.kind) {
                // The last one to leave ends the hold.
                exit.end(&hold, &self.core);
            } else {
                // Others are still inside, or the hold was given up.
                mirror_later(&hold, &self.core);
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut exit = Exit::default();
        self.leave(&mut exit);
        // A drop cannot wait. The exit is dropped here, and each release continues as a task (P7).
        exit.continue_in_background(&self.core.queues);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("holds", &self.holds)
            .finish_non_exhaustive()
    }
}

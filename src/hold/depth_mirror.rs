//! The task that updates the store to the depth of a hold. No caller waits for it.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::error::LostReason;
use crate::base::events;
use crate::base::timer::{Backoff, sleep};
use crate::hold::core::Core;
use crate::hold::hold::{Hold, HoldState};
use crate::queue::LocalQueues;
use crate::store::{DepthChange, Presence, SetDepth};

/// Updates the store before this function returns, unless the response must be awaited: then a task continues.
pub(super) fn mirror_now(hold: &Arc<Hold>, core: &Core) {
    if let Some(mirror) = DepthMirror::begin(hold, core) {
        // The first change is sent when it is first polled.
        let mut run = Box::pin(mirror.run());
        if (&mut run).now_or_never().is_none() {
            spawn(hold, core, run);
        }
    }
}

/// Updates the store in a task. An entry may be dropped where no timer can be armed, so nothing is polled here.
pub(super) fn mirror_later(hold: &Arc<Hold>, core: &Core) {
    if let Some(mirror) = DepthMirror::begin(hold, core) {
        spawn(hold, core, mirror.run());
    }
}

/// Without a runtime, the work is dropped, and the next entry or exit begins it again.
fn spawn(hold: &Arc<Hold>, core: &Core, work: impl Future<Output = ()> + Send + 'static) {
    // If the runtime on which the hold began has ended, the present one does the work.
    let runtime = core.runtime_of(hold);
    if let Some(runtime) = runtime.or_else(|| Handle::try_current().ok()) {
        drop(runtime.spawn(work));
    }
}

/// A hold has at most one of them, and it ends when there is nothing left to do.
struct DepthMirror {
    hold: Arc<Hold>,
    queues: Arc<LocalQueues>,
    has_ended: bool,
}

impl DepthMirror {
    /// `None` if the store has the depth, or another one is updating it.
    fn begin(hold: &Arc<Hold>, core: &Core) -> Option<Self> {
        let begins = hold.change(|state| {
            // In one step, so that a hold never has two: one that runs finds every change before it ends.
            let begins = !state.depth.has_mirror && is_stale(hold, state);
            state.depth.has_mirror |= begins;
            begins
        });
        begins.then(|| Self {
            hold: Arc::clone(hold),
            queues: Arc::clone(&core.queues),
            has_ended: false,
        })
    }

    /// Sends one change at a time. The changes that are wanted while one is in flight are combined into the next.
    async fn run(mut self) {
        let mut backoff = Backoff::default();
        while let Some(change) = self.next() {
            let Self { hold, queues, .. } = &self;
            // A lease that the change lengthens counts from before its request (P5).
            let sent = Instant::now();
            let key = hold.key().clone();
            match queues.store().ask(SetDepth { key, change }).await {
                Ok(Presence::Present) => hold.change(|state| {
                    state.depth.stored.depth = Some(change.target);
                    if change.lengthen {
                        state.lease.confirm(sent, change.ttl, Instant::now());
                    }
                }),
                // The release of the last to leave has overtaken this change.
                Ok(Presence::Gone) if hold.depth() == 0 => return,
                Ok(Presence::Gone) => {
                    // No release was sent, so this is a loss: it was released by force, has expired, or the server has
                    // lost its data.
                    hold.lose(LostReason::Deleted);
                    return queues.note_loss(hold.key(), hold.id());
                }
                Err(error) if error.failure_class().is_rejected() => {
                    // A repetition would be rejected as well. When this is dropped, the next entry or exit may begin
                    // another one.
                    return events::depth_rejected(hold.key(), hold.id(), &error);
                }
                Err(error) => {
                    events::depth_retried(hold.key(), hold.id(), &error);
                    // Whether it was executed may be unknown. The next change has the depth of then, and a greater
                    // number, so it corrects both cases.
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    /// The next change. From here on the depth in the store is unknown until the change is confirmed. `None` if there is
    /// nothing left to do.
    fn next(&mut self) -> Option<DepthChange> {
        let hold = &self.hold;
        let next = hold.change(|state| {
            // The depth of a lost hold is not updated any more.
            state.lease.check_loss(Instant::now());
            // Whether it ends is decided under the mutex, so a change that comes after it begins another mirror.
            state.depth.has_mirror = is_stale(hold, state);
            state.depth.has_mirror.then(|| {
                let stored = &mut state.depth.stored;
                stored.depth = None;
                // The script ignores a change whose number is not above the last, so one that is late undoes nothing.
                stored.seq += 1;
                DepthChange {
                    hold: hold.id(),
                    mode: hold.mode(),
                    seq: stored.seq,
                    target: state.depth.target(),
                    ttl: state.lease.ttl(),
                    lengthen: lengthens(hold, state),
                }
            })
        });
        self.has_ended = next.is_none();
        next
    }
}

/// Returns whether the store must be updated.
fn is_stale(hold: &Hold, state: &HoldState) -> bool {
    let target = state.depth.target();
    let is_held = target > 0 && state.lease.lost().is_none();
    is_held && (state.depth.stored.depth != Some(target) || lengthens(hold, state))
}

/// Returns whether a change lengthens the lease. If replicas must have it, the next renewal does.
fn lengthens(hold: &Hold, state: &HoldState) -> bool {
    hold.confirm.is_none() && state.lease.is_lengthening()
}

/// The task may end with its runtime.
impl Drop for DepthMirror {
    fn drop(&mut self) {
        if !self.has_ended {
            self.hold.change(|state| state.depth.has_mirror = false);
        }
    }
}

//! The members of holds. Work that has left its task keeps the holds that enclosed it, because it is a member of each.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{JoinAll, join_all};
use tokio::runtime::Handle;

use crate::base::error::LockError;
use crate::hold::abort::Loss;
use crate::hold::exit::Exit;
use crate::hold::hold::Hold;
use crate::hold::renewals::RenewalSchedule;

/// One member of a hold. It costs no request. Dropping it removes it. If it was the last one in the hold, the hold ends
/// in the background.
pub(crate) struct Member {
    hold: Arc<Hold>,
    renewals: Arc<RenewalSchedule>,
    loss: Loss,
    /// Whether it was removed.
    has_left: bool,
}

impl Member {
    /// Adds a member. Returns `None` if the hold has ended.
    pub(super) fn of(hold: &Arc<Hold>, renewals: Arc<RenewalSchedule>) -> Option<Self> {
        hold.join().then(|| Self {
            hold: Arc::clone(hold),
            renewals,
            loss: Loss::default(),
            has_left: false,
        })
    }

    pub(super) fn is_of(&self, hold: &Arc<Hold>) -> bool {
        Arc::ptr_eq(&self.hold, hold)
    }

    fn exit(mut self) -> Exit {
        self.has_left = true;
        self.leave()
    }

    fn leave(&self) -> Exit {
        let left = [(&self.hold, self.hold.leave())];
        Exit::new(left.into_iter(), &self.renewals)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.has_left {
            drop(self.leave());
        }
    }
}

/// Keeps the lock of a hold for at least this time after its acquisition, whenever its holder leaves. A member waits for
/// the end of that time, so until then the hold is renewed and counted like any other.
pub(crate) fn keep_for(
    hold: &Arc<Hold>,
    min_hold: Duration,
    renewals: &Arc<RenewalSchedule>,
    runtime: &Handle,
) {
    let end = hold.keep_for(min_hold);
    if let Some(member) = Member::of(hold, Arc::clone(renewals)) {
        drop(runtime.spawn(async move {
            member.hold.until_kept(end).await;
            drop(member);
        }));
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("hold", &self.hold)
            .field("has_left", &self.has_left)
            .finish_non_exhaustive()
    }
}

/// The members of a piece of work, one for each hold around it, beginning with the innermost.
#[derive(Debug)]
pub(crate) struct Members(Vec<Member>);

impl Members {
    pub(super) fn new(innermost_first: Vec<Member>) -> Self {
        Self(innermost_first)
    }

    /// The loss that ends the work. If several holds are lost, it is that of the outermost.
    pub(crate) fn lost(&self) -> Option<LockError> {
        self.0.iter().rev().find_map(|Member { hold, .. }| {
            let reason = hold.must_abort()?;
            Some(hold.lost_error(reason))
        })
    }

    /// Polls `body`, unless a lock is lost. An error is the loss that ends the body. [`Loss::race`] describes when it
    /// is checked.
    pub(crate) fn race<F: Future>(
        &mut self,
        body: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<F::Output, LockError>> {
        if let Some(error) = self.lost() {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(output) = body.poll(cx) {
            return Poll::Ready(self.lost().map_or(Ok(output), Err));
        }
        for Member { hold, loss, .. } in self.0.iter_mut().rev() {
            let hold = std::slice::from_ref(&*hold);
            if let Poll::Ready(error) = loss.poll_lost(hold, cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Pending
    }

    /// Removes the members, because the work has ended; see [`Exit`].
    pub(crate) fn exit(self) -> Exits {
        Exits(join_all(self.0.into_iter().map(Member::exit)))
    }
}

/// Waits if the work was the last one in a hold. Returns the loss of the outermost hold that turns out to have been
/// lost.
#[derive(Debug)]
pub(crate) struct Exits(JoinAll<Exit>);

impl Future for Exits {
    type Output = Option<LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LockError>> {
        let exits = ready!(self.0.poll_unpin(cx));
        let mut errors = exits.into_iter().rev().filter_map(Result::err);
        Poll::Ready(errors.find(LockError::is_lost))
    }
}

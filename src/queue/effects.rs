//! The effects of a step.

use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::grant::{Grant, Release};
use super::holder_lookup::{Look, WaitReport};
use super::request::Flight;
use super::step::Action;
use crate::base::id::HoldId;

/// The work to do after the mutex is released, since it runs foreign code, which may call back into the queues.
#[derive(Default)]
pub(super) struct Effects {
    /// A step wakes one caller, as a rule.
    pub(super) wakers: SmallVec<[Waker; 1]>,
    pub(super) signal: Option<Arc<Notify>>,
    /// Locks that were granted, and that their callers do not enter.
    pub(super) given_back: Vec<Grant>,
    /// The release of the input.
    pub(super) ending: Option<Ending>,
    /// Releases that no caller waits for.
    pub(super) undoing: Vec<Ending>,
    pub(super) check_subscription: bool,
    /// A look that no caller waits for any more.
    pub(super) looking: Option<Look>,
    /// Reports of callers that wait for long.
    pub(super) reports: Vec<WaitReport>,
    pub(super) actions: Vec<Action>,
}

/// The end of a hold, under way or not begun yet.
#[derive(Clone)]
pub(super) enum Ending {
    Alone(Release),
    /// A release that names a successor, for which it is the request in flight.
    HandingOver(HoldId, Flight),
}

impl Ending {
    pub(super) fn hold(&self) -> HoldId {
        match self {
            Self::Alone(release) => release.hold,
            Self::HandingOver(hold, _) => *hold,
        }
    }
}

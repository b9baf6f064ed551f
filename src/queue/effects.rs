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

/// The work to do after the mutex is released, because it runs foreign code, which may call back into the queues.
#[derive(Default)]
pub(super) struct Effects {
    /// Usually a step wakes one caller.
    pub(super) wakers: SmallVec<[Waker; 1]>,
    pub(super) signal: Option<Arc<Notify>>,
    /// The locks that were granted, and that their callers do not enter.
    pub(super) given_back: Vec<Grant>,
    /// The release for the input.
    pub(super) ending: Option<Ending>,
    /// The releases that no caller waits for.
    pub(super) undoing: Vec<Ending>,
    pub(super) check_subscription: bool,
    /// A lookup that no caller waits for any more.
    pub(super) looking: Option<Look>,
    /// The reports of callers that wait for long.
    pub(super) reports: Vec<WaitReport>,
    pub(super) actions: Vec<Action>,
}

/// The end of a hold, in progress or not begun yet.
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

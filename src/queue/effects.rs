//! What a step calls for.

use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::grant::{Grant, Release};
use super::holder_lookup::{Look, WaitReport};
use super::request::{Flight, Part};
use super::step::Action;
use crate::base::id::HoldId;

/// What is done once the line is let go of, since it runs code of others, which may come back here.
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
    /// That callers wait for long.
    pub(super) reports: Vec<WaitReport>,
    pub(super) actions: Vec<Action>,
}

/// The end of a hold, on its way or to be begun.
#[derive(Clone)]
pub(super) enum Ending {
    Alone(Release),
    /// It names a successor, for which it is a request in flight.
    HandingOver(HoldId, Flight),
    /// By its part of a request that releases several.
    Part(Release, Part),
}

impl Ending {
    pub(super) fn hold(&self) -> HoldId {
        match self {
            Self::Alone(release) | Self::Part(release, _) => release.hold,
            Self::HandingOver(hold, _) => *hold,
        }
    }
}

//! The effects of a step.

use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use tokio::sync::Notify;

use super::grant::{Grant, Release};
use super::holder_lookup::WaitReport;
use super::step::Action;

/// The work to do after the mutex is released, because it runs foreign code, which may call back into the queues.
#[derive(Default)]
pub(super) struct Effects {
    /// Usually a step wakes one caller.
    pub(super) wakers: SmallVec<[Waker; 1]>,
    /// Wakes the driver.
    pub(super) signal: Option<Arc<Notify>>,
    /// The signal of a driver that must be started.
    pub(super) driver: Option<Arc<Notify>>,
    /// The locks that were granted, and that their callers do not enter.
    pub(super) given_back: Vec<Grant>,
    /// The releases that no caller waits for.
    pub(super) undoing: Vec<Release>,
    pub(super) check_subscription: bool,
    /// The reports of callers that wait for long.
    pub(super) reports: Vec<WaitReport>,
    pub(super) actions: Vec<Action>,
}

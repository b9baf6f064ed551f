//! The requests that searches want, until they are sent.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::walk::{Sight, WalkQuestion};
use crate::base::error::StoreError;
use crate::store::records::WaitAnswer;
use crate::store::{MOST_TOGETHER, WaitChange};

/// The requests that will be made next.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) changes: Vec<Change>,
    pub(super) looks: HashMap<WalkQuestion, Vec<Caller<Sight>>>,
    /// The time at which they are made; `None` if nothing is wanted.
    due: Option<Due>,
}

/// A change, and the search that waits for its result.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) change: WaitChange,
    pub(super) caller: Option<Caller<WaitAnswer>>,
}

/// The time at which the requests will be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The requests are made in this turn of the runtime.
    Now,
    Soon(Duration),
}

/// The receiver with which a search waits for an answer.
pub(super) type Caller<T> = oneshot::Sender<Result<T, StoreError>>;

/// The property that the keys of one request have in common.
pub(super) type Span = Option<u16>;

/// The reason why a search has no answer.
#[derive(Clone, Debug)]
pub(super) enum Unanswered {
    Store(StoreError),
    /// The runtime that made the request has ended.
    RuntimeEnded,
}

impl Wanted {
    /// Makes the requests due at this time, unless they are due sooner. Returns whether that is sooner than before.
    pub(super) fn bring_forward(&mut self, due: Due) -> bool {
        let is_sooner = self.due.is_none() || due == Due::Now && self.due != Some(Due::Now);
        if is_sooner {
            self.due = Some(due);
        }
        is_sooner
    }

    pub(super) fn is_due(&self, due: Due) -> bool {
        self.due == Some(due)
    }
}

/// Divides changes into requests. One script may name all keys of a request.
pub(super) fn batches(
    changes: Vec<Change>,
    span: impl Fn(&WaitChange) -> Span,
) -> Vec<(Span, Vec<Change>)> {
    let mut batches: Vec<(Span, Vec<Change>)> = Vec::new();
    // The last request of each span.
    let mut open: HashMap<Span, usize> = HashMap::new();
    for change in changes {
        let span = span(&change.change);
        let room = open.get(&span).and_then(|at| batches.get_mut(*at));
        match room.filter(|(_, batch)| batch.len() < MOST_TOGETHER) {
            Some((_, batch)) => batch.push(change),
            None => {
                open.insert(span, batches.len());
                batches.push((span, vec![change]));
            }
        }
    }
    batches
}

/// Waits for an answer.
pub(super) async fn answered<T>(
    answer: oneshot::Receiver<Result<T, StoreError>>,
) -> Result<T, Unanswered> {
    match answer.await {
        Ok(answer) => answer.map_err(Unanswered::Store),
        Err(_ended) => Err(Unanswered::RuntimeEnded),
    }
}

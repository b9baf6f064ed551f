//! Several locks for one caller, acquired by one request if possible.
//!
//! A request for several locks is a way to send a request for each of them. In the local queue of each key the caller
//! makes a single attempt of its own. Its request for the key is a part of the common one. So each key is independent
//! of the others when another caller joins, the caller is dropped, or there is no response. Only keys whose local queue
//! is vacant are requested in this way, so no caller of this process is overtaken.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::grant::Grant;
use super::lines::{Alone, LoneCaller, Slot};
use super::local_queues::LocalQueues;
use super::request::{Acquiring, AskedTogether};
use super::step::{Refusal, Wish, silent};
use super::wait::Wait;
use super::waiter::Waiter;
use crate::base::error::{LockError, StoreError};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::base::options::{Terms, WaitLimit};
use crate::base::timer::timeout_at;
use crate::store::AcquireAllReply;

/// The result of a request for several locks.
#[derive(Debug)]
pub(crate) struct Acquired {
    /// The locks of the first keys, in their order.
    pub(crate) taken: Vec<Grant>,
    pub(crate) stop: Stop,
}

/// The reason why the next lock was not taken.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The lock was not requested, because it is held or wanted in this process.
    Unasked,
    /// No lock was taken, because the lock of the key with this index is not free.
    Busy(usize),
    /// The store has failed, or the caller came too late for its grants. The hold has ended for the keys that are not
    /// taken.
    Failed(Option<StoreError>),
}

impl LocalQueues {
    /// Requests once the locks of the first keys, up to one that is held or wanted in this process. Dropping the future
    /// undoes whatever the store may have granted by then.
    pub(crate) async fn acquire_all(
        self: &Arc<Self>,
        keys: &[LockKey],
        hold: HoldId,
        terms: Terms,
        since: Instant,
        runtime: &Handle,
    ) -> Result<Acquired, LockError> {
        let wait = WaitLimit::Never;
        let wish = self.wish(hold, Terms { wait, ..terms });
        let Some((asked, count)) = self.enter_together(keys, wish, runtime) else {
            return Ok(Acquired {
                taken: Vec::new(),
                stop: Stop::Unasked,
            });
        };
        let asked_keys = keys.iter().take(count);
        let mut parts = AcquireParts::new(self, asked_keys, wish, runtime);
        let own_limit = terms.wait.limit(since);
        let asked_at = self.queueing.outage.map_or(since, |_| Instant::now());
        match self.limit(own_limit, asked_at) {
            Some(limit) => {
                let by = |key| self.store().answers_by(key, Instant::now(), limit);
                let is_answered = keys.iter().all(by);
                let limited = timeout_at(limit, &mut parts);
                let limited = limited.sparing(is_answered, |parts| parts.are_alone());
                if limited.await.is_err()
                    && let Some(key) = keys.first()
                {
                    let failure = self.heard(key).0.failure();
                    let is_own = Some(limit) == own_limit;
                    let failure = failure.or_else(|| (!is_own).then(silent));
                    let late = Refusal::Late(failure);
                    if let Some(error) = late.error(key, hold, since, || None) {
                        return Err(error);
                    }
                }
            }
            None => (&mut parts).await,
        }
        Ok(parts.outcome(&asked))
    }

    /// Returns whether no caller of this process has or wants the lock.
    pub(crate) fn is_vacant(&self, key: &LockKey) -> bool {
        !self.lines.lock().of.contains_key(key)
    }

    /// Enters the local queues of the first keys, up to one that is not vacant, each with its part of one request.
    /// Returns `None` if there are fewer than two such keys.
    fn enter_together(
        &self,
        keys: &[LockKey],
        wish: Wish,
        runtime: &Handle,
    ) -> Option<(AskedTogether, usize)> {
        let moment = self.requests.moment(keys.first()?);
        let mut lines = self.lines.lock();
        let vacant = keys.iter().take_while(|key| !lines.of.contains_key(*key));
        let keys = keys.get(..vacant.count()).filter(|keys| keys.len() > 1)?;
        // Nothing is sent before the first poll.
        let asked = self.requests.acquire_all(keys, wish.request);
        for (index, key) in keys.iter().enumerate() {
            let asking = LoneCaller {
                waiter: Waiter::new(wish),
                runtime: runtime.id(),
                acquiring: Some(Acquiring::part(&asked, index, moment)),
                waker: None,
            };
            let slot = Slot::Alone(Alone::Asking(Box::new(asking)));
            lines.of.insert(key.clone(), slot);
        }
        Some((asked, keys.len()))
    }
}

/// A caller that waits for the response to a request for several locks.
struct AcquireParts<'q> {
    queues: &'q Arc<LocalQueues>,
    parts: Vec<AcquirePart<'q>>,
    /// The runtime for the work that outlives the caller.
    runtime: &'q Handle,
}

/// The wait of the caller at one key.
struct AcquirePart<'q> {
    wait: Wait<'q>,
    key: &'q LockKey,
    /// The count of disconnects before the request.
    disconnects: u64,
    answer: Option<Result<Grant, Refusal>>,
}

impl<'q> AcquireParts<'q> {
    /// The caller has entered the lines of these keys.
    fn new(
        queues: &'q Arc<LocalQueues>,
        keys: impl Iterator<Item = &'q LockKey>,
        wish: Wish,
        runtime: &'q Handle,
    ) -> Self {
        let parts = keys.map(|key| AcquirePart {
            wait: Wait::alone(queues, key, wish, runtime),
            key,
            disconnects: queues.store().disconnects_of(key),
            answer: None,
        });
        Self {
            queues,
            parts: parts.collect(),
            runtime,
        }
    }

    /// Returns whether the response to its request wakes the caller.
    fn are_alone(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|part| part.answer.is_some() || part.wait.is_alone())
    }

    /// Returns the result as soon as each part is answered. Usually all parts have the same outcome. Otherwise the
    /// grants after the first part without a grant are released, because locks are taken in order.
    fn outcome(mut self, asked: &AskedTogether) -> Acquired {
        let now = Instant::now();
        let mut taken = Vec::new();
        for part in &mut self.parts {
            let is_live = |granted: &Grant| granted.is_live(now);
            if !matches!(&part.answer, Some(Ok(granted)) if is_live(granted)) {
                break;
            }
            if let Some(Ok(mut granted)) = part.answer.take() {
                granted.requested_after(part.disconnects);
                taken.push(granted);
            }
        }
        let stop = match self.parts.get(taken.len()).map(|part| &part.answer) {
            None => Stop::Unasked,
            Some(Some(Err(Refusal::Busy))) if taken.is_empty() => {
                match asked.peek().map(|reply| &**reply) {
                    Some(Ok(AcquireAllReply::Busy { first })) => Stop::Busy(*first),
                    _ => Stop::Busy(0),
                }
            }
            Some(Some(Err(Refusal::Failed(error) | Refusal::Late(Some(error))))) => {
                Stop::Failed(Some(error.clone()))
            }
            Some(_) => Stop::Failed(None),
        };
        Acquired { taken, stop }
    }
}

impl Future for AcquireParts<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut is_ready = true;
        for part in &mut self.parts {
            if part.answer.is_none() {
                match Pin::new(&mut part.wait).poll(cx) {
                    Poll::Ready(answer) => part.answer = Some(answer),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Releases the grants that were not taken. Dropping the waits does the rest.
impl Drop for AcquireParts<'_> {
    fn drop(&mut self) {
        for part in &mut self.parts {
            if let Some(Ok(granted)) = part.answer.take() {
                self.queues.give_back(part.key, granted, Some(self.runtime));
            }
        }
    }
}

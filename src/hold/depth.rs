//! How many nested entries a hold has: as it should be, and as the store has it.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::Shared};
use tokio::{sync::Notify, time::Instant};

use crate::{
    base::{
        backoff::pauses,
        error::{Effect, Failure, LostReason},
        events,
        mutex::Mutex,
        timer::{sleep_until, timeout_at},
    },
    hold::lease::Lease,
    queue::Stored,
    store::{Answer, DepthChange, Presence, Store},
};

/// The depth of one hold. The wanted depth is the truth; the store is brought up to it, one change
/// at a time, and after an unknown outcome by the next change.
#[derive(Debug)]
pub(crate) struct Depth {
    store: Arc<dyn Store>,
    lease: Arc<Lease>,
    state: Mutex<State>,
    /// Tells the watchdog to bring the store up to the wanted depth.
    behind: Notify,
}

#[derive(Debug)]
struct State {
    wanted: u32,
    /// How many times the wanted depth has changed, and how many of these changes the store is known
    /// to have taken in: a later depth includes all earlier changes.
    wishes: u64,
    met: u64,
    /// `None` while a change is in flight or its outcome is unknown.
    stored: Option<u32>,
    seq: u64,
    /// Whether a re-entry has asked for a longer lease than the store knows of.
    lengthen: bool,
    /// The one change that is in flight. Boxed, since there seldom is one.
    flight: Option<Box<Flight>>,
}

/// A change of the depth in flight. Every caller that waits for it polls it, so that an entry or an
/// exit which was begun and is not polled any more holds up no other.
#[derive(Clone, Debug)]
struct Flight {
    change: DepthChange,
    /// The last wish that the change includes.
    wish: u64,
    /// Before the request is sent.
    sent: Instant,
    answer: Shared<Answer<Presence>>,
}

impl Depth {
    /// The depth of a hold that is entered, as the one before has left it in the store.
    pub(crate) fn new(store: Arc<dyn Store>, lease: Arc<Lease>, stored: Stored) -> Self {
        let state = State {
            wanted: 1,
            wishes: 1,
            met: 0,
            stored: stored.depth,
            seq: stored.seq,
            lengthen: false,
            flight: None,
        };
        Self {
            store,
            lease,
            state: Mutex::new(state),
            behind: Notify::new(),
        }
    }

    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The wanted depth; 0 once the hold has ended.
    pub(crate) fn wanted(&self) -> u32 {
        self.state.lock().wanted
    }

    /// One level more, and a lease of at least `ttl`. Returns false if the hold has ended: then it cannot be
    /// re-entered.
    pub(crate) fn deepen(&self, ttl: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        if state.wanted == 0 {
            return false;
        }
        state.wanted += 1;
        state.wishes += 1;
        state.lengthen |= ttl.is_some_and(|ttl| self.lease.raise_ttl(ttl));
        true
    }

    /// One level less. Returns how many are left.
    pub(crate) fn rise(&self) -> u32 {
        let mut state = self.state.lock();
        state.wanted = state.wanted.saturating_sub(1);
        state.wishes += 1;
        state.wanted
    }

    /// What the store has, for the call graph that goes on with the hold.
    pub(crate) fn stored(&self) -> Stored {
        let state = self.state.lock();
        Stored {
            depth: state.stored,
            seq: state.seq,
        }
    }

    /// Whether the store has not confirmed a longer lease that a re-entry has asked for.
    pub(crate) fn is_lengthening(&self) -> bool {
        self.state.lock().lengthen
    }

    /// Whether the store may have another depth than is wanted.
    pub(crate) fn is_behind(&self) -> bool {
        let state = self.state.lock();
        state.stored != Some(state.wanted)
    }

    /// Lets the watchdog bring the store up to the wanted depth.
    pub(crate) fn sync_later(&self) {
        self.behind.notify_one();
    }

    /// Brings the store up to the wanted depth whenever it is told to, until the lock is lost.
    pub(crate) async fn follow(&self) -> LostReason {
        loop {
            self.behind.notified().await;
            // Boxed, since it is rarely there: the watchdog of an idle hold is small.
            if let Err(Failure::Lost(reason)) = Box::pin(self.sync()).await {
                return reason;
            }
        }
    }

    /// Waits until the store has taken in every change that was made before this call.
    ///
    /// It does not wait for the changes that other callers make meanwhile: nested calls that enter and
    /// leave all the time would keep each other from entering.
    pub(crate) async fn sync(&self) -> Result<(), Failure> {
        let mut pauses = pauses();
        let wish = self.state.lock().wishes;
        while let Some(flight) = self.flight(wish) {
            if let Some(reason) = self.lease.lost_by(Instant::now()) {
                return Err(Failure::Lost(reason));
            }
            match timeout_at(self.lease.deadline(), flight.answer.clone()).await {
                Ok(Ok(Presence::Present)) => self.confirm(&flight),
                Ok(Ok(Presence::Gone)) => {
                    // A hold that is being released is gone rightly.
                    if self.state.lock().wanted > 0 {
                        self.lease.lose(LostReason::Gone);
                    }
                    return Err(Failure::Lost(LostReason::Gone));
                }
                Ok(Err(error)) => {
                    let first_to_know = self.land(&flight, None);
                    if error.effect() == Effect::Refused {
                        events::depth_refused(self.lease.key(), self.lease.hold(), &error);
                        return Err(Failure::Store(error));
                    }
                    if first_to_know {
                        events::depth_retried(self.lease.key(), self.lease.hold(), &error);
                    }
                    let pause = Instant::now() + pauses.next().unwrap_or_default();
                    sleep_until(pause.min(self.lease.deadline())).await;
                }
                Err(_lease_ended) => {}
            }
        }
        Ok(())
    }

    /// The change that is in flight, or the next one that the store needs, until it has taken in the
    /// wish. From here on its depth is unknown until confirmed.
    fn flight(&self, wish: u64) -> Option<Flight> {
        let mut state = self.state.lock();
        let settled = state.stored == Some(state.wanted) && !state.lengthen;
        if settled || state.met >= wish || state.wanted == 0 {
            return None;
        }
        if state.flight.is_some() {
            return state.flight.as_deref().cloned();
        }
        state.stored = None;
        state.seq += 1;
        let change = DepthChange {
            hold: self.lease.hold(),
            target: state.wanted,
            seq: state.seq,
            ttl: self.lease.ttl(),
            lengthen: state.lengthen,
        };
        let flight = Flight {
            change,
            wish: state.wishes,
            sent: Instant::now(),
            answer: self.store.depth(self.lease.key(), change).shared(),
        };
        state.flight = Some(Box::new(flight.clone()));
        Some(flight)
    }

    fn confirm(&self, flight: &Flight) {
        let change = flight.change;
        if change.lengthen {
            self.lease.confirm(flight.sent, change.ttl);
        }
        self.land(flight, Some(change.target));
    }

    /// The flight has been answered, and the depth in the store is now `stored`. Returns whether the caller
    /// is the first to know.
    fn land(&self, flight: &Flight, stored: Option<u32>) -> bool {
        let change = flight.change;
        let mut state = self.state.lock();
        let present = |flight: &mut Box<Flight>| flight.change.seq == change.seq;
        let first = state.flight.take_if(present).is_some();
        if first && stored.is_some() {
            state.stored = stored;
            state.met = flight.wish;
            state.lengthen &= change.ttl < self.lease.ttl();
        }
        first
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where its ground gives way")]
mod tests {
    use super::*;
    use crate::{
        base::{id::Owner, key::LockKey},
        queue::Leased,
        store::{AcquireRequest, memory::MemoryStore},
    };

    /// The caller that was bringing the store up to date may have stopped at the last exit.
    #[tokio::test(start_paused = true)]
    async fn the_next_turn_has_its_depth_in_the_store() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let key = LockKey::new("", "order:42").unwrap();
        let (hold, ttl) = (Owner::new().next_hold(), Duration::from_secs(30));
        let request = AcquireRequest {
            hold,
            ttl,
            entry: None,
        };
        store.acquire(&key, request).await.unwrap();
        let depth = |stored| {
            let leased = Leased::new(Instant::now(), ttl, ttl);
            let lease = Lease::new(key.clone(), hold, leased, None);
            Depth::new(Arc::clone(&store), Arc::new(lease), stored)
        };
        let first = depth(Stored {
            depth: Some(1),
            seq: 0,
        });
        assert!(first.deepen(None));
        first.sync().await.unwrap();
        // The inner exit has sent its change when the outer one comes.
        assert_eq!(first.rise(), 1);
        assert!(first.flight(u64::MAX).is_some());
        assert_eq!(first.rise(), 0);
        let stored = first.stored();
        assert_eq!(stored.depth, None);
        let next = depth(stored);
        assert!(next.is_behind());
        next.sync().await.unwrap();
        assert_eq!(next.stored().depth, Some(1));
        let seen = store.inspect(&key).await.unwrap().unwrap();
        assert_eq!(seen.holders[0].1, 1);
    }
}

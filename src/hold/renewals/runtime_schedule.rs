//! The schedule of the holds that are renewed on one runtime.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::mem;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::base::timer::after;
use crate::hold::hold::{Hold, Place};
use crate::hold::lease::LeaseAction;
use crate::hold::renew_request::{Common, RenewRequest, next_attempt};
use crate::store::Store;

/// The interval at which a schedule checks whether there is still a hold.
const CHECKS: Duration = Duration::from_secs(1);

/// The maximum number of holds that one turn looks at. A caller that acquires a lock at the same time waits for that
/// long.
const MAX_PER_TURN: usize = 1_000;

/// The maximum number of requests of one runtime in flight at one server. Over a distance of 10 ms this allows for
/// 25,600 requests per second, and up to 32 times as many holds. Together they keep a server busy for about 10 ms,
/// which is how long another request may wait behind them.
///
/// Without a bound, a process might have more renewals due together than it can send. They would be late before they
/// are sent, would be sent once more, and so would keep the rest from being sent.
const MAX_IN_FLIGHT: usize = 256;

/// The number of free permits at which the next requests are sent. Sent one by one, each would cost a turn of the
/// schedule, and a packet.
const REFILL: usize = 64;

/// The holds that are renewed on one runtime.
pub(super) struct RuntimeSchedule {
    pub(super) runtime: Handle,
    response_timeout: Duration,
    holds: BTreeMap<Place, Arc<Hold>>,
    servers: HashMap<usize, AtServer, RandomState>,
    /// The number of holds that have entered.
    entered: u64,
    /// The generation that its task has processed.
    generation: u64,
    /// The time of the next check whether there is still a hold.
    check_at: Instant,
    /// The time until which its task sleeps; `None` while it does not sleep.
    sleeps_until: Option<Instant>,
    /// The signal that wakes its task. It also distinguishes the task from the next one.
    pub(super) signal: Arc<Notify>,
}

/// The renewals at one server.
#[derive(Debug, Default)]
struct AtServer {
    permits: Permits,
    /// The holds that are due, each in its place, which is at its deadline. The earliest is first. A hold that has left
    /// its place is no longer meant.
    due: BinaryHeap<Reverse<Place>>,
}

/// What a turn has found.
pub(super) struct Turn {
    pub(super) lost: Vec<Arc<Hold>>,
    /// The holds whose attempts have had no response since then.
    pub(super) overdue: Vec<(Arc<Hold>, Instant)>,
    pub(super) requests: Vec<(RenewRequest, Permit)>,
    /// The time until which the task sleeps.
    pub(super) until: Instant,
}

impl RuntimeSchedule {
    pub(super) fn new(runtime: Handle, generation: u64, response_timeout: Duration) -> Self {
        Self {
            runtime,
            response_timeout,
            holds: BTreeMap::new(),
            servers: HashMap::default(),
            entered: 0,
            generation,
            check_at: Instant::now() + CHECKS,
            sleeps_until: None,
            signal: Arc::default(),
        }
    }

    pub(super) fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.values()
    }

    /// Adds a hold. Returns the signal that wakes the task if it would sleep for too long.
    pub(super) fn push(
        &mut self,
        hold: &Arc<Hold>,
        epoch: Instant,
        generation: u64,
    ) -> Option<Arc<Notify>> {
        self.entered += 1;
        let place = hold.enter_schedule(self.entered, epoch, generation);
        self.holds.insert(place, Arc::clone(hold));
        let wakes = self.sleeps_until.take_if(|until| place.at < *until);
        wakes.map(|_| Arc::clone(&self.signal))
    }

    /// Removes a hold. Returns whether it waited for its time.
    pub(super) fn remove(&mut self, hold: &Hold, generation: u64) -> bool {
        let left = hold.leave_schedule(generation);
        left.is_some_and(|(place, was_waiting)| {
            self.holds.remove(&place);
            was_waiting
        })
    }

    /// Moves a hold, unless it has ended.
    pub(super) fn move_to(&mut self, hold: &Hold, at: Instant) {
        if let Some((from, to)) = hold.move_to(at)
            && let Some(hold) = self.holds.remove(&from)
        {
            self.holds.insert(to, hold);
        }
    }

    /// Finds what is due. Returns `None` if there has been no hold for some time.
    pub(super) fn turn(&mut self, store: &Store, now: Instant) -> Option<Turn> {
        if self.check_at <= now {
            if self.holds.is_empty() {
                return None;
            }
            self.check_at = now + CHECKS;
        }
        let generation = store.generation();
        if mem::replace(&mut self.generation, generation) != generation {
            self.reschedule();
        }
        let mut turn = Turn {
            lost: Vec::new(),
            overdue: Vec::new(),
            requests: Vec::new(),
            until: now,
        };
        for _ in 0..MAX_PER_TURN {
            let first = self.holds.first_key_value();
            let Some((place, hold)) = first.filter(|(place, _)| place.at <= now) else {
                break;
            };
            let (number, hold) = (place.number, Arc::clone(hold));
            let at = self.look_at(&hold, number, store, now, &mut turn);
            self.move_to(&hold, at);
        }
        self.begin_requests(store, now, &mut turn);
        let first = self.holds.first_key_value().map(|(place, _)| place.at);
        turn.until = first.map_or(self.check_at, |at| at.min(self.check_at));
        self.sleeps_until = Some(turn.until);
        Some(turn)
    }

    /// The server may have lost the locks together with a connection, so they are due. An attempt in flight fails by
    /// itself.
    fn reschedule(&mut self) {
        let holds = mem::take(&mut self.holds).into_iter();
        let holds = holds.map(|(place, hold)| {
            let due = hold.state.lock().lease.due(self.generation);
            let is_idle = hold.silent_since().is_none();
            let moved = is_idle.then(|| hold.move_to(due)).flatten();
            (moved.map_or(place, |(_, to)| to), hold)
        });
        self.holds = holds.collect();
    }

    /// Looks at a hold. Returns when it is looked at next.
    fn look_at(
        &mut self,
        hold: &Arc<Hold>,
        number: u64,
        store: &Store,
        now: Instant,
        turn: &mut Turn,
    ) -> Instant {
        // A loss is not reported here, because the mutex of the schedules is locked.
        let action = hold.state.lock().lease.look(self.generation, now);
        match action {
            LeaseAction::WaitUntil(at) => return at,
            LeaseAction::Lose => {
                turn.lost.push(Arc::clone(hold));
                return after(now, Duration::MAX);
            }
            LeaseAction::Renew => {}
        }
        if let Some(since) = hold.silent_since() {
            if !store.is_connected(hold.key()) {
                // The attempt waits for a connection, as another one would.
                return next_attempt(from_ref(hold), now, self.response_timeout);
            }
            turn.overdue.push((Arc::clone(hold), since));
        }
        let at = hold.deadline();
        let server = self.servers.entry(store.server_of(hold.key()));
        let due = &mut server.or_default().due;
        due.push(Reverse(Place { at, number }));
        at
    }

    /// Begins requests for the holds that are due, as far as there are permits.
    fn begin_requests(&mut self, store: &Store, now: Instant, turn: &mut Turn) {
        let mut open = HashMap::<Common, usize, RandomState>::default();
        for at in self.servers.values_mut() {
            while let Some(&Reverse(place)) = at.due.peek() {
                if let Some(hold) = self.holds.get(&place) {
                    let common = Common::of(hold, store);
                    let request = open.get(&common).and_then(|at| turn.requests.get_mut(*at));
                    if let Some((request, _)) = request.filter(|(it, _)| it.has_room()) {
                        request.holds.push(Arc::clone(hold));
                    } else if let Some(permit) = at.permits.take(&self.signal) {
                        open.insert(common.clone(), turn.requests.len());
                        let request = RenewRequest::new(hold, common, store, now);
                        turn.requests.push((request, permit));
                    } else {
                        break;
                    }
                }
                at.due.pop();
            }
        }
        self.servers
            .retain(|_, at| !at.due.is_empty() || !at.permits.are_all_free());
        for (request, _) in &turn.requests {
            // If there is no response by then, another attempt is made.
            let until = next_attempt(&request.holds, now, self.response_timeout);
            for hold in &request.holds {
                hold.begin_attempt(now);
                self.move_to(hold, until);
            }
        }
    }
}

/// The permits of the requests at one server.
#[derive(Debug)]
pub(super) struct Permits(Arc<Semaphore>);

impl Default for Permits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_IN_FLIGHT)))
    }
}

impl Permits {
    /// A permit, if one is free. When enough are free again, it notifies the signal.
    pub(super) fn take(&self, signal: &Arc<Notify>) -> Option<Permit> {
        let permit = Arc::clone(&self.0).try_acquire_owned().ok();
        let signal = Arc::clone(signal);
        permit.is_some().then_some(Permit { permit, signal })
    }

    pub(super) fn are_all_free(&self) -> bool {
        self.0.available_permits() == MAX_IN_FLIGHT
    }
}

/// The permit of a request in flight.
#[derive(Debug)]
pub(super) struct Permit {
    permit: Option<OwnedSemaphorePermit>,
    /// Wakes the schedule's task.
    signal: Arc<Notify>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let permits = self.permit.take().map(|it| Arc::clone(it.semaphore()));
        if permits.is_some_and(|permits| permits.available_permits() >= REFILL) {
            self.signal.notify_one();
        }
    }
}

//! The schedule of the holds that are renewed on one runtime.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::mem;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::base::timer::after;
use crate::hold::hold::{Hold, ScheduleKey};
use crate::hold::renew_request::{BatchKey, RenewRequest, next_attempt};
use crate::store::Store;

/// The interval at which a schedule checks whether there is still a hold.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of holds that are checked at a time. A caller that acquires a lock at the same time waits for that
/// long.
const MAX_CHECKED_AT_ONCE: usize = 1_000;

/// The maximum number of requests of one runtime in flight at one server. Over a distance of 10 ms this allows for
/// 25,600 requests per second, and up to 32 times as many holds. Together they keep a server busy for about 10 ms,
/// which is how long another request may wait behind them.
///
/// Without a bound, a process might have more renewals due together than it can send. They would be late before they
/// are sent, would be sent once more, and so would keep the rest from being sent.
const MAX_IN_FLIGHT: usize = 256;

/// The number of free permits at which the next requests are sent. Sent one by one, each would cost a turn of the
/// schedule, and a packet.
const REFILL_FROM: usize = 64;

/// The holds that are renewed on one runtime.
pub(super) struct RuntimeSchedule {
    pub(super) runtime: Handle,
    response_timeout: Duration,
    holds: BTreeMap<ScheduleKey, Arc<Hold>>,
    servers: HashMap<usize, ServerRenewals, RandomState>,
    entered: u64,
    /// The generation in which its task last ran.
    generation: u64,
    /// The time of the next check whether there is still a hold.
    idle_check_at: Instant,
    /// The time until which its task sleeps; `None` while it does not sleep.
    sleeps_until: Option<Instant>,
    /// The signal that wakes its task. It also distinguishes the task from the next one.
    pub(super) signal: Arc<Notify>,
}

/// The renewals at one server.
#[derive(Default)]
struct ServerRenewals {
    in_flight: Arc<AtomicUsize>,
    /// The holds that are due, each in its position, which is at its deadline. A hold that has left its position is no
    /// longer meant. It may come back to it, after a lost connection, and then be meant more than once.
    due: BinaryHeap<Reverse<ScheduleKey>>,
}

/// The work that is due.
pub(super) struct DueWork {
    pub(super) is_new_generation: bool,
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
            idle_check_at: Instant::now() + IDLE_CHECK_INTERVAL,
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
        // The number distinguishes holds that are checked at the same instant.
        self.entered += 1;
        let key = hold.enter_schedule(self.entered, epoch, generation);
        self.holds.insert(key, Arc::clone(hold));
        // Taken, because one signal is enough until the task sleeps again.
        let wakes = self.sleeps_until.take_if(|until| key.at < *until);
        wakes.map(|_| Arc::clone(&self.signal))
    }

    /// Removes a hold. Returns whether it waited for its time.
    pub(super) fn remove(&mut self, hold: &Hold, generation: u64) -> bool {
        let left = hold.leave_schedule(generation);
        left.is_some_and(|(key, was_waiting)| {
            // Its owner still has it, so it is not dropped under the mutex.
            self.holds.remove(&key);
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

    /// Takes what is due. Returns `None` if there has been no hold for some time.
    pub(super) fn take_due(&mut self, store: &Store, now: Instant) -> Option<DueWork> {
        if self.idle_check_at <= now {
            if self.holds.is_empty() {
                return None;
            }
            self.idle_check_at = now + IDLE_CHECK_INTERVAL;
        }

        // The server may have lost the locks together with a connection, so they are verified.
        let generation = store.generation();
        let is_new_generation = mem::replace(&mut self.generation, generation) != generation;
        if is_new_generation {
            self.reschedule_all();
        }
        let mut due = DueWork {
            is_new_generation,
            lost: Vec::new(),
            overdue: Vec::new(),
            requests: Vec::new(),
            until: now,
        };

        // Each hold that is due goes on to its server, or is lost. Not all of them at once, because a caller that
        // acquires a lock waits for the mutex.
        for _ in 0..MAX_CHECKED_AT_ONCE {
            let first = self.holds.first_key_value();
            let Some((key, hold)) = first.filter(|(key, _)| key.at <= now) else {
                break;
            };
            let (number, hold) = (key.number, Arc::clone(hold));
            let at = self.check(&hold, number, store, now, &mut due);
            self.move_to(&hold, at);
        }
        self.begin_requests(store, now, &mut due);

        // From here on a hold that is entered wakes the task only if it is due before this.
        let first = self.holds.first_key_value().map(|(key, _)| key.at);
        due.until = first.map_or(self.idle_check_at, |at| at.min(self.idle_check_at));
        self.sleeps_until = Some(due.until);
        Some(due)
    }

    /// Makes all holds due. An attempt in flight fails by itself.
    fn reschedule_all(&mut self) {
        let holds = mem::take(&mut self.holds).into_iter();
        let holds = holds.map(|(key, hold)| {
            let due = hold.state.lock().lease.due(self.generation);
            let is_idle = hold.silent_since().is_none();
            // An attempt in flight fails with its connection, and is then followed by the next one.
            let moved = is_idle.then(|| hold.move_to(due)).flatten();
            (moved.map_or(key, |(_, to)| to), hold)
        });
        self.holds = holds.collect();
    }

    /// Checks a hold. Returns when it is checked next.
    fn check(
        &mut self,
        hold: &Arc<Hold>,
        number: u64,
        store: &Store,
        now: Instant,
        work: &mut DueWork,
    ) -> Instant {
        // A loss is not reported here, because the mutex of the schedules is locked.
        let (loss, due) = {
            let lease = &hold.state.lock().lease;
            (lease.loss_at(now), lease.due(self.generation))
        };
        // A loss comes before a renewal that is due as well: a lock that counts as lost is not renewed.
        if loss.is_some() {
            work.lost.push(Arc::clone(hold));
            // It stays in the schedule until it ends, and is never due again.
            return after(now, Duration::MAX);
        }
        if now < due {
            return due;
        }
        if let Some(since) = hold.silent_since() {
            if !store.is_connected(hold.key()) {
                // The attempt waits for a connection, as another one would.
                return next_attempt(from_ref(hold), now, self.response_timeout);
            }
            // It is not given up. The next attempt is sent beside it, and the first response counts.
            work.overdue.push((Arc::clone(hold), since));
        }
        // Until it has a permit it is in the schedule at its deadline, so that a loss is found there if none comes
        // free.
        let at = hold.deadline();
        let server = self.servers.entry(store.server_of(hold.key()));
        let due = &mut server.or_default().due;
        due.push(Reverse(ScheduleKey { at, number }));
        at
    }

    /// Begins requests for the holds that are due, as far as there are permits.
    fn begin_requests(&mut self, store: &Store, now: Instant, work: &mut DueWork) {
        // Only requests that begin now have room for more holds: those of earlier turns have been sent.
        let mut open = HashMap::<BatchKey, usize, RandomState>::default();
        for server in self.servers.values_mut() {
            while let Some(&Reverse(key)) = server.due.peek() {
                // If it has moved or ended since it became due, this entry is outdated.
                if let Some(hold) = self.holds.get(&key) {
                    // It shares the request of another hold if it can, because that needs no permit of its own.
                    let batch = BatchKey::new(hold, store);
                    let request = open.get(&batch).and_then(|at| work.requests.get_mut(*at));
                    if let Some((request, _)) = request.filter(|(it, _)| it.has_room()) {
                        request.holds.push(Arc::clone(hold));
                    } else if let Some(permit) =
                        Permit::try_acquire(&server.in_flight, &self.signal)
                    {
                        open.insert(batch.clone(), work.requests.len());
                        let request = RenewRequest::new(hold, batch, store, now);
                        work.requests.push((request, permit));
                    } else {
                        // Those with an earlier deadline are before it. A permit that is returned wakes the task.
                        break;
                    }
                    // It comes back below. Until then no other entry means it, here or at another server.
                    self.holds.remove(&key);
                }
                server.due.pop();
            }
        }
        // A server without work is forgotten, because the servers of a cluster come and go.
        self.servers
            .retain(|_, at| !at.due.is_empty() || at.in_flight.load(Relaxed) > 0);
        // Only now, when each request has all of its holds, because the first of them to expire decides about all.
        for (request, _) in &work.requests {
            // If there is no response by then, another attempt is made.
            let until = next_attempt(&request.holds, now, self.response_timeout);
            for hold in &request.holds {
                hold.begin_attempt(now);
                if let Some((_, to)) = hold.move_to(until) {
                    self.holds.insert(to, Arc::clone(hold));
                }
            }
        }
    }
}

/// The permit of a request in flight at one server.
pub(super) struct Permit {
    in_flight: Arc<AtomicUsize>,
    /// Wakes the schedule's task when enough permits are free.
    signal: Arc<Notify>,
}

impl Permit {
    /// A permit, if one is free. Only one thread takes permits at a time.
    fn try_acquire(in_flight: &Arc<AtomicUsize>, signal: &Arc<Notify>) -> Option<Self> {
        let is_free = in_flight.load(Relaxed) < MAX_IN_FLIGHT;
        is_free.then(|| {
            in_flight.fetch_add(1, Relaxed);
            Self {
                in_flight: Arc::clone(in_flight),
                signal: Arc::clone(signal),
            }
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Not at each permit, because requests that are sent together share a turn of the task and a packet.
        let left = self.in_flight.fetch_sub(1, Relaxed) - 1;
        if left + REFILL_FROM <= MAX_IN_FLIGHT {
            self.signal.notify_one();
        }
    }
}

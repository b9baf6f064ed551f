//! The batches of short requests: requests that are in flight at the same time travel together.
//!
//! While other requests are in flight, the short ones are collected, and are sent as one call at the end of the same
//! turn of the runtime. Each of them gets the reply that it would get by itself, or learns that it must be sent alone,
//! as if it had not been sent. So a batch changes no rule about repetitions, late requests and dropped futures. A batch
//! whose response is lost is an unknown outcome for each of its requests.
//!
//! On a runtime of one thread, batches are answered in turns: the callers of one send their next requests before those
//! of the next one get their replies. So the server executes requests while callers run. Otherwise both would wait for
//! each other.

use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::thread::available_parallelism;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::select;
use tokio::sync::Notify;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::task::yield_now;

use super::batch::{self, BatchItem, MAX_BATCH_ITEMS};
use crate::base::background::{AbortOnDrop, Deliverer, WriteSignal};
use crate::base::error::StoreError;
use crate::base::sync::{Mutex, OnDrop, yield_to_woken_tasks};
use crate::redis::Servers;
use crate::redis::context::ConnectorContext;
use crate::store::verbs::Verb;

/// The number of requests in flight from which on no further batch is sent. So the limit of a batch begins when the
/// server can work on it, however many callers there are.
const MAX_IN_FLIGHT: usize = 32 * MAX_BATCH_ITEMS;

/// A request, and the caller that waits for the reply.
struct Collected {
    request: BatchItem,
    caller: Sender<ItemReply>,
    /// For a caller that waits until its request is written. It is dropped after the reply was sent.
    deliverer: Option<Deliverer>,
}

impl AsRef<BatchItem> for Collected {
    fn as_ref(&self) -> &BatchItem {
        &self.request
    }
}

pub(super) type ItemReply = Result<Value, StoreError>;

/// The requests in flight, and the short ones that are about to be sent.
pub(super) struct Batches {
    pub(super) servers: Servers,
    pub(super) context: Arc<ConnectorContext>,
    in_flight: AtomicUsize,
    /// The minimum number of requests in flight for the next short one to travel in a batch.
    min_in_flight: usize,
    /// The collectors, each with its task. A runtime that is not driven must not delay the requests of another one, so
    /// each runtime has its own.
    collectors: Mutex<Vec<(Arc<Collector>, AbortOnDrop)>>,
}

/// Collects the short requests of one runtime.
struct Collector {
    home: runtime::Id,
    servers: Servers,
    /// The requests that are about to be sent. `None` after the task that sends them has ended with its runtime.
    open: Mutex<Option<Vec<Collected>>>,
    /// Wakes that task.
    has_requests: Notify,
}

impl Batches {
    pub(super) fn new(
        servers: Servers,
        context: Arc<ConnectorContext>,
        min_in_flight: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            servers,
            context,
            in_flight: AtomicUsize::default(),
            min_in_flight,
            collectors: Mutex::default(),
        })
    }

    /// Counts a request while it is in flight.
    pub(super) fn count(this: &Arc<Self>) -> InFlightGuard {
        this.in_flight.fetch_add(1, Relaxed);
        InFlightGuard(Arc::clone(this))
    }

    /// Returns whether a request that is made now is sent in the same turn.
    pub(super) fn are_sent_at_once(&self) -> bool {
        self.in_flight.load(Relaxed) < MAX_IN_FLIGHT
    }

    /// Returns whether a request travels with others, if it has a form for that. It was counted.
    pub(super) fn includes(&self, verb: &impl Verb) -> bool {
        // Requests that were made together always travel together. Others do while enough are in flight, but not in a
        // cluster: there a batch has the keys of one slot, which they would rarely share.
        let is_busy = self.in_flight.load(Relaxed) > self.min_in_flight;
        verb.goes_with_others() || is_busy && matches!(self.servers, Servers::One(_))
    }

    /// Collects a request for the next batch. Its caller gets no reply if the runtime ends.
    pub(super) fn collect(&self, request: BatchItem) -> Receiver<ItemReply> {
        let home = Handle::current().id();
        let (caller, reply) = channel();
        let collected = Collected {
            deliverer: request.written.as_ref().map(Deliverer::new),
            request,
            caller,
        };
        let mut collectors = self.collectors.lock();
        // The collector of this runtime takes it, unless its task has ended. Only the first request wakes the task,
        // which then sends all that were made in the same turn.
        let known = collectors.iter().find(|(it, _)| it.home == home);
        if let Some((collector, _)) = known
            && let Some(open) = &mut *collector.open.lock()
        {
            open.push(collected);
            if open.len() == 1 {
                collector.has_requests.notify_one();
            }
            return reply;
        }
        let collector = Arc::new(Collector {
            home,
            servers: self.servers.clone(),
            open: Mutex::new(Some(vec![collected])),
            has_requests: Notify::default(),
        });
        collector.has_requests.notify_one();
        // Ends the wait of the callers whose requests were not sent when the task ends. Made before the task, so that they
        // do not wait for ever if the runtime ends before the first poll.
        let ended = Arc::clone(&collector);
        let end_waits = OnDrop(move || {
            let unsent = ended.open.lock().take();
            // The callers are woken after the mutex was released.
            drop(unsent);
        });
        let sending = Arc::clone(&collector);
        let task = AbortOnDrop::spawn(async move {
            let _end_waits = end_waits;
            sending.send().await;
        });
        // The collectors of runtimes that have ended. Their tasks are dropped without the mutex.
        let ended: Vec<_> = collectors
            .extract_if(.., |(it, _)| it.open.lock().is_none())
            .collect();
        collectors.push((collector, task));
        drop(collectors);
        drop(ended);
        reply
    }
}

/// A request in flight.
pub(super) struct InFlightGuard(pub(super) Arc<Batches>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Collector {
    /// Sends the collected requests, until the task is aborted or its runtime ends.
    async fn send(&self) {
        let (mut in_flight, mut count) = (FuturesUnordered::new(), 0);
        let (mut collected, mut waiting) = (Vec::new(), Vec::<Vec<Collected>>::new());
        let is_in_turns = are_turns_faster();
        loop {
            select! {
                biased;
                // While batches wait for room, new requests stay with the collector: they are sent after those.
                () = self.has_requests.notified(), if waiting.is_empty() => {
                    yield_to_woken_tasks().await;
                    if let Some(open) = &mut *self.open.lock() {
                        // The vector that was divided before is filled next.
                        mem::swap(open, &mut collected);
                    }
                    // A request whose caller has left is not sent.
                    collected.retain(|it| !it.caller.is_closed());
                    let batches = split(&mut collected, &self.servers);
                    waiting.extend(batches.into_iter().rev());
                    // It keeps no more room than is usually needed.
                    collected.shrink_to(MAX_IN_FLIGHT);
                }
                Some(answered) = in_flight.next() => {
                    count -= answered;
                    if is_in_turns {
                        // The callers of this batch make their next requests, which are sent before the next batch is
                        // answered.
                        yield_now().await;
                    }
                }
                // All that was sent in the last turn was answered at once, and the next ones have room.
                else => {}
            }
            // The response timeout of a batch begins when it is sent. So it is not sent before the server can work on
            // it.
            let mut sent = Vec::new();
            while count < MAX_IN_FLIGHT
                && let Some(batch) = waiting.pop()
            {
                count += batch.len();
                sent.push(Box::pin(self.ask(batch)));
            }
            if is_in_turns && !sent.is_empty() {
                // They are handed to the driver, which writes them in its next turn. Then the exits that waited for no
                // more continue, and their callers make the next requests.
                count -= poll_once(&mut sent).await;
                yield_now().await;
                count -= poll_once(&mut sent).await;
                yield_now().await;
            }
            // From here on each of them is polled when it is woken, and now once more.
            in_flight.extend(sent);
        }
    }

    /// Sends one batch, and passes the replies to its callers. Returns their number.
    async fn ask(&self, batch: Vec<Collected>) -> usize {
        let count = batch.len();
        let releases = batch.iter().filter(|it| it.request.is_release()).count();
        let deliverers = || batch.iter().filter_map(|it| it.deliverer.as_ref());
        // No caller waits for the write of a batch without releases, so it is not watched.
        let written = deliverers().next().map(|_| WriteSignal::default());
        let (call, order) = batch::call(&batch);
        let call = call.with_write_signal(written.clone());
        let reply = {
            let slot = || batch.first().map_or(0, |it| it.request.key.slot());
            let mut asked = pin!(self.servers.ask(&call));
            let mut unnoted = written.as_ref();
            let mut may_be_late = unnoted.is_some();
            poll_fn(|cx| {
                // The request comes first: its first poll hands it to the driver, and each later one may find that it
                // was written.
                let polled = asked.as_mut().poll(cx);
                // The connection may have been lost since the requests were collected. Then their exits wait with a
                // limit.
                if mem::take(&mut may_be_late) && !self.servers.is_connected(slot) {
                    deliverers().for_each(Deliverer::set_late);
                }
                if unnoted.take_if(|written| written.is_set()).is_some() {
                    deliverers().for_each(Deliverer::set);
                }
                polled
            })
            .await
        };
        let replies = reply.map(|reply| {
            let replies = batch::replies(&reply, &order, releases);
            replies.ok_or(reply)
        });
        // Each caller gets its reply as if its request had been sent alone.
        for (at, collected) in batch.into_iter().enumerate() {
            let reply = match &replies {
                Ok(Ok(replies)) => Ok(replies.get(at).map_or(Value::Nil, |it| Value::Int(*it))),
                // Each of them finds that it is not a reply of the script.
                Ok(Err(unexpected)) => Ok(unexpected.clone()),
                Err(error) => Err(error.clone()),
            };
            // The caller may have left.
            let _ = collected.caller.send(reply);
            drop(collected.deliverer);
        }
        count
    }
}

/// Returns whether the server and the tasks of this runtime work at the same time only if batches are answered in turns.
/// With several threads, they do so anyway, and turns make batches small. With one core they may never do so, and turns
/// cost 7 %.
fn are_turns_faster() -> bool {
    let has_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    has_one_thread && available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Polls the batches, removes those that were answered, and returns the number of their requests.
async fn poll_once<F: Future<Output = usize>>(batches: &mut Vec<Pin<Box<F>>>) -> usize {
    let mut answered = 0;
    poll_fn(|cx| {
        batches.retain_mut(|batch| match batch.as_mut().poll(cx) {
            Poll::Ready(count) => {
                answered += count;
                false
            }
            Poll::Pending => true,
        });
        Poll::Ready(())
    })
    .await;
    answered
}

/// Divides requests into batches. The acquires of each batch have the same terms.
fn split(requests: &mut Vec<Collected>, servers: &Servers) -> Vec<Vec<Collected>> {
    let group = |it: &Collected| servers.script_group(|| it.request.key.slot());
    // Those of one server are one group.
    if !requests.is_sorted_by_key(group) {
        requests.sort_by_key(group);
    }
    let mut batches = Vec::new();
    while let Some(first) = requests.first().map(group) {
        // A batch has requests whose keys one script may name, acquires of the same terms, and at most as many as one
        // script may execute. The others are left for the next batch, in the order in which they came.
        let of_group = requests.iter().take_while(|it| group(it) == first);
        let terms = of_group.clone().find_map(|it| it.request.terms);
        let mut left = of_group.count();
        let mut room = MAX_BATCH_ITEMS;
        let mut batch = Vec::with_capacity(left.min(room));
        let goes = |it: &mut Collected| {
            let own = &it.request.terms;
            let goes = left > 0 && room > 0 && (own.is_none() || *own == terms);
            left = left.saturating_sub(1);
            room -= usize::from(goes);
            goes
        };
        batch.extend(requests.extract_if(.., goes));
        batches.push(batch);
    }
    batches
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;
    use crate::base::error::FailureClass;
    use crate::base::id::Owner;
    use crate::base::key::LockKey;
    use crate::redis::{ServerSpec, Timeouts};
    use crate::store::redis::RedisStore;
    use crate::store::{Acquire, AcquireRequest};

    /// No batch is left in flight while others still wait for room.
    #[tokio::test(start_paused = true)]
    async fn more_requests_than_travel_at_once_may_fail_at_once() {
        let servers = ServerSpec::parse("unix:///nowhere/redis.sock").expect("a URL");
        let timeouts = Timeouts {
            connect: Duration::from_secs(1),
            response: Duration::from_secs(1),
        };
        let store = RedisStore::open(servers, timeouts).with_batches_from(0);
        let key = LockKey::new("", "key").expect("a key");
        for _ in 0..3 {
            let asked = (0..3 * MAX_IN_FLIGHT).map(|_| {
                let request = AcquireRequest {
                    hold: Owner::new().next_hold(),
                    ttl: Duration::from_secs(1),
                    entry: None,
                    with_others: false,
                };
                let key = key.clone();
                store.ask(Acquire { key, request })
            });
            for failed in join_all(asked).await {
                let class = failed.map_err(|error| error.failure_class());
                assert_eq!(class.err(), Some(FailureClass::NotExecuted));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

//! The batches of short requests: requests that are in flight at the same time travel together.
//!
//! While other requests are in flight on a connection, the short ones are collected, and are sent as one call at the
//! end of the same turn of the runtime. Each of them gets the reply that it would get by itself, or learns that it must
//! be sent alone, as if it had not been sent. So a batch changes no rule about repetitions, late requests and dropped
//! futures. A batch whose response is lost is an unknown outcome for each of its requests.

use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::outcome::{AnswerPace, Cause, Fault, answered, outcome};
use crate::base::background::AbortOnDrop;
use crate::base::sync::{Mutex, after_others};
use crate::base::timer::after;
use crate::store::redis::batch::{self, MOST};
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::failure::{RUNTIME_ENDED, aborted};
use crate::store::redis::wire::question::Short;

/// The short requests of one connection that are about to be sent.
#[derive(Default)]
pub(crate) struct Batches {
    open: Mutex<Open>,
    /// Wakes the task that sends them.
    sooner: Notify,
}

#[derive(Default)]
struct Open {
    collection: Arc<Collection>,
    /// Whether the task that sends them has ended.
    is_over: bool,
}

/// The requests that may travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All requests that go over the connection.
    Server,
    /// Only requests of one slot of a cluster.
    Slot,
}

impl Batches {
    /// Begins the task that sends batches, on the present runtime.
    pub(super) fn begin(sender: BatchSender) -> (Arc<Self>, AbortOnDrop) {
        let batches = Arc::<Self>::default();
        let sending = AbortOnDrop::spawn(sender.send(Arc::clone(&batches)));
        (batches, sending)
    }

    /// Collects a request for the next batch.
    pub(super) fn collect(&self, request: Short) -> Collected {
        let open = self.open.lock();
        let (collected, is_first) = open.collection.collect(request);
        if open.is_over {
            open.collection.abort();
        } else if is_first {
            self.sooner.notify_one();
        }
        collected
    }
}

/// The maximum number of batches in flight. What is collected beyond that is sent later, so that the limit of a batch
/// begins when the server can work on it, however many callers there are.
const IN_FLIGHT: usize = 32;

/// The number of requests in flight up to which each of them is sent in the same turn.
pub(super) const SENT_AT_ONCE: usize = IN_FLIGHT * MOST;

/// What the task needs that sends batches.
pub(super) struct BatchSender {
    pub(super) driver: MultiplexedConnection,
    pub(super) scope: Scope,
    pub(super) pace: Arc<AnswerPace>,
    /// The limit of each batch, from when it is sent.
    pub(super) limit: Duration,
}

impl BatchSender {
    /// Sends the collected requests, until the connection is dropped or its runtime ends.
    async fn send(self, batches: Arc<Batches>) {
        let _over = Over(&batches);
        let mut in_flight = FuturesUnordered::new();
        let mut waiting = Vec::new();
        loop {
            select! {
                biased;
                () = batches.sooner.notified(), if waiting.is_empty() => {
                    after_others().await;
                    let collection = mem::take(&mut batches.open.lock().collection);
                    let split = split(collection.take(), self.scope).into_iter().rev();
                    waiting.extend(split.map(|batch| Asked::of(batch, &collection)));
                }
                Some(()) = in_flight.next() => {}
            }
            while in_flight.len() < IN_FLIGHT
                && let Some((call, asked)) = waiting.pop()
            {
                in_flight.push(self.ask(call, asked));
            }
        }
    }

    /// Sends one batch, and passes the replies to its callers.
    async fn ask(&self, call: Call, asked: Asked) {
        let (sent, mut driver) = (Instant::now(), self.driver.clone());
        let sending = pin!(call.send(&mut driver, Way::Plain));
        let answered = answered(after(sent, self.limit), sending).await;
        asked.answer(outcome(&self.pace, answered, sent, self.limit));
    }
}

/// Divides requests into batches. In each batch the requests are in the order of their turns, and the acquires have the
/// same terms.
fn split(mut requests: Vec<Numbered>, scope: Scope) -> Vec<Vec<Numbered>> {
    let slot = |it: &Numbered| match scope {
        Scope::Server => 0,
        Scope::Slot => it.request.key.slot(),
    };
    if scope == Scope::Slot {
        requests.sort_by_key(slot);
    }
    let mut batches = Vec::new();
    while let Some(first) = requests.first().map(slot) {
        let of_slot = requests.iter().take_while(|it| slot(it) == first);
        let terms = of_slot.clone().find_map(|it| batch::terms(&it.request));
        let mut left = of_slot.count();
        let mut room = MOST;
        let goes = |it: &mut Numbered| {
            let own = batch::terms(&it.request);
            let rest = room.checked_sub(batch::weight(&it.request));
            let goes = left > 0 && rest.is_some() && (own.is_none() || own == terms);
            left = left.saturating_sub(1);
            room = rest.filter(|_| goes).unwrap_or(room);
            goes
        };
        let mut batch: Vec<_> = requests.extract_if(.., goes).collect();
        batch.sort_by_key(|it| batch::turn(&it.request));
        batches.push(batch);
    }
    batches
}

/// A batch that is sent. If it is dropped without a response, its callers learn that there will be none.
struct Asked {
    collection: Arc<Collection>,
    /// The numbers of its requests, in the order of the call.
    numbers: Vec<usize>,
    releases: usize,
}

impl Asked {
    /// The call of a batch, and who waits for it.
    fn of(batch: Vec<Numbered>, collection: &Arc<Collection>) -> (Call, Self) {
        let releases = batch.iter().filter(|it| it.request.is_release()).count();
        let call = batch::call(batch.iter().map(|it| &it.request));
        let asked = Self {
            collection: Arc::clone(collection),
            numbers: batch.into_iter().map(|it| it.number).collect(),
            releases,
        };
        (call, asked)
    }

    fn answer(mut self, reply: ShortAnswer) {
        let numbers = mem::take(&mut self.numbers);
        let replies =
            reply.map(|reply| batch::replies(&reply, numbers.len(), self.releases).ok_or(reply));
        let answer = |at: usize| match &replies {
            Ok(Ok(replies)) => Ok(replies
                .get(at)
                .map_or(Value::Nil, |reply| Value::Int(*reply))),
            // Each of them finds that it is not a reply of the script.
            Ok(Err(unexpected)) => Ok(unexpected.clone()),
            Err(error) => Err(error.clone()),
        };
        let answers = numbers
            .iter()
            .enumerate()
            .map(|(at, number)| (*number, answer(at)));
        self.collection.answer(answers);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let numbers = mem::take(&mut self.numbers).into_iter();
        let unanswered = numbers.map(|number| (number, Err(ended())));
        self.collection.answer(unanswered);
    }
}

/// The outcome of a request whose connection has ended with its runtime.
fn ended() -> Fault {
    Fault {
        cause: Cause::Driver(aborted(RUNTIME_ENDED)),
        is_done: true,
    }
}

/// Ends the wait of the callers whose requests were not sent when the task ends.
struct Over<'b>(&'b Batches);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let unsent = {
            let mut open = self.0.open.lock();
            open.is_over = true;
            mem::take(&mut open.collection)
        };
        unsent.abort();
    }
}

/// A request with its number in its collection.
struct Numbered {
    number: usize,
    request: Short,
}

/// The requests that were collected in one turn, and the callers that wait for their responses.
#[derive(Default)]
struct Collection(Mutex<Vec<Place>>);

/// A caller and its request.
enum Place {
    Collected(Short, Option<Waker>),
    Sent(Option<Waker>),
    Answered(ShortAnswer),
    /// The caller has its response, or was dropped.
    Left,
}

pub(super) type ShortAnswer = Result<Value, Fault>;

impl Collection {
    /// Collects a request. Returns the future of its response, and whether it is the first request.
    fn collect(self: &Arc<Self>, request: Short) -> (Collected, bool) {
        let mut places = self.0.lock();
        places.push(Place::Collected(request, None));
        let collected = Collected {
            collection: Arc::clone(self),
            number: places.len() - 1,
        };
        (collected, places.len() == 1)
    }

    /// Ends the wait of all callers without a response.
    fn abort(&self) {
        let count = self.0.lock().len();
        self.answer((0..count).map(|number| (number, Err(ended()))));
    }

    /// Takes the requests whose callers have not left.
    fn take(&self) -> Vec<Numbered> {
        let mut places = self.0.lock();
        let taken = places
            .iter_mut()
            .enumerate()
            .filter_map(|(number, place)| match mem::replace(place, Place::Left) {
                Place::Collected(request, waker) => {
                    *place = Place::Sent(waker);
                    Some(Numbered { number, request })
                }
                _ => None,
            });
        taken.collect()
    }

    /// Passes their responses to the callers with these numbers, if they still wait.
    fn answer(&self, answers: impl Iterator<Item = (usize, ShortAnswer)>) {
        let mut wakers = Vec::new();
        let mut places = self.0.lock();
        for (number, answer) in answers {
            if let Some(place) = places.get_mut(number)
                && let Place::Collected(_, waker) | Place::Sent(waker) = place
            {
                wakers.extend(waker.take());
                *place = Place::Answered(answer);
            }
        }
        drop(places);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The response to a request that was collected.
pub(super) struct Collected {
    collection: Arc<Collection>,
    number: usize,
}

impl Future for Collected {
    type Output = ShortAnswer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ShortAnswer> {
        let mut places = self.collection.0.lock();
        let Some(place) = places.get_mut(self.number) else {
            return Poll::Pending;
        };
        match place {
            Place::Collected(_, waker) | Place::Sent(waker) => {
                let is_known = waker.as_ref().is_some_and(|it| it.will_wake(cx.waker()));
                let before = (!is_known).then(|| waker.replace(cx.waker().clone()));
                drop(places);
                // Dropping a waker may drop a task, and with it a caller of this collection.
                drop(before);
                Poll::Pending
            }
            Place::Left => Poll::Pending,
            Place::Answered(_) => match mem::replace(place, Place::Left) {
                Place::Answered(answer) => Poll::Ready(answer),
                _ => Poll::Pending,
            },
        }
    }
}

/// A request whose caller leaves before it was taken is not sent.
impl Drop for Collected {
    fn drop(&mut self) {
        let mut places = self.collection.0.lock();
        let place = places.get_mut(self.number);
        let place = place.filter(|place| !matches!(place, Place::Left));
        let left = place.map(|place| mem::replace(place, Place::Left));
        drop(places);
        // Dropping a waker may drop a task.
        drop(left);
    }
}

//! The short requests that were collected in one turn of the runtime, and the callers that wait for their responses.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use redis::{RedisError, Value};

use crate::base::sync::Mutex;
use crate::store::redis::wire::failure::{RUNTIME_ENDED, aborted};
use crate::store::redis::wire::question::Short;

/// A request with its number in its collection.
pub(super) struct Numbered {
    pub(super) number: usize,
    pub(super) request: Short,
}

/// The requests that were collected in one turn, and the callers that wait for their responses.
#[derive(Default)]
pub(super) struct Collection(Mutex<Vec<Place>>);

/// A caller and its request.
enum Place {
    Collected(Short, Option<Waker>),
    Sent(Option<Waker>),
    Answered(ShortAnswer),
    /// The caller has its response, or was dropped.
    Left,
}

pub(super) type ShortAnswer = Result<Value, RedisError>;

impl Collection {
    /// Collects a request. Returns the future of its response, and whether it is the first request.
    pub(super) fn collect(self: &Arc<Self>, request: Short) -> (Collected, bool) {
        let mut places = self.0.lock();
        places.push(Place::Collected(request, None));
        let collected = Collected {
            collection: Arc::clone(self),
            number: places.len() - 1,
        };
        (collected, places.len() == 1)
    }

    /// Ends the wait of all callers without a response.
    pub(super) fn abort(&self) {
        let count = self.0.lock().len();
        self.answer((0..count).map(|number| (number, Err(aborted(RUNTIME_ENDED)))));
    }

    /// Takes the requests whose callers have not left.
    pub(super) fn take(&self) -> Vec<Numbered> {
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
    pub(super) fn answer(&self, answers: impl Iterator<Item = (usize, ShortAnswer)>) {
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

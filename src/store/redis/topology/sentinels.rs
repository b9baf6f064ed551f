//! The place of the primary, as the sentinels report it.
//!
//! They are asked before each connection to the primary, and again whenever one of them reports a change. Their
//! messages are hints: only the answers count. Answers may differ while a failover is in progress. Then the one with
//! the latest [configuration
//! epoch](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#configuration-epochs) counts, and the
//! server itself must report that it is a primary.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd};
use tokio::select;
use tokio::sync::watch;
use tokio::time::Instant;

use self::sentinel::{Named, Sentinel, SentinelAnswer};
use super::ask_most::{GRACE, ask_most};
use crate::base::backoff::Backoff;
use crate::base::error::{Effect, Mistake, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::store::redis::link::abort_on_drop::AbortOnDrop;
use crate::store::redis::link::address::{Address, Place, list};
use crate::store::redis::link::source::{Opened, Opening, Receiver, Source, Timeouts};
use crate::store::redis::wire::failure::{self, DriverError};
use crate::store::redis::wire::mistake::mistake;

mod sentinel;

/// The part of the connect timeout for which the other sentinels are waited for after the first answer.
const FEW: u32 = 4;

/// The longest pause, without the jitter, before the sentinels are asked again because of a message. A sentinel whose
/// connections do not last causes a message with each of them.
const LONGEST_IF_TOLD: Duration = Duration::from_millis(250);

/// The time for which the sentinels must have been silent for the pauses to begin with the shortest again.
const QUIET: Duration = Duration::from_secs(2);

/// The minimum time between two doubts.
const DOUBTS: Duration = Duration::from_millis(500);

/// The interval at which the sentinels are asked although none has sent a message, because messages may be lost.
const CALM: Duration = Duration::from_secs(10);

/// The longest pause, without the jitter, between two attempts to reach a sentinel that does not respond.
const LONGEST: Duration = Duration::from_secs(5);

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    /// The name of the primary.
    pub(crate) name: Arc<str>,
    /// The addresses of one sentinel and of one server. The others are connected to in the same way.
    pub(crate) sentinel: Address,
    pub(crate) server: Address,
    pub(crate) seeds: Vec<Place>,
    known: Mutex<BTreeMap<Place, Arc<Sentinel>>>,
    news: watch::Sender<u64>,
    doubted: Mutex<Option<Instant>>,
}

/// The common answer of the sentinels.
#[derive(Clone, Debug)]
struct SentinelVerdict {
    named: Named,
    /// Whether every sentinel has answered.
    is_complete: bool,
}

impl Sentinels {
    /// A copy of these sentinels with other addresses.
    pub(crate) fn with(&self, sentinel: Address, server: Address) -> Self {
        Self::new(&self.name, sentinel, server, self.seeds.clone())
    }

    /// The sentinels, which are not connected yet. `sentinel` and `server` are the addresses from which those of all
    /// sentinels and all servers derive.
    pub(crate) fn new(name: &str, sentinel: Address, server: Address, seeds: Vec<Place>) -> Self {
        let news = watch::Sender::new(0);
        let known = seeds.iter().map(|place| {
            let sentinel = Sentinel::new(sentinel.at(place), news.clone());
            (place.clone(), Arc::new(sentinel))
        });
        Self {
            name: name.into(),
            known: Mutex::new(known.collect()),
            sentinel,
            server,
            seeds,
            news,
            doubted: Mutex::default(),
        }
    }

    /// Connects to the primary, and to another server as soon as the sentinels name one. If they do so while the
    /// connection exists, the receiver is notified that the server has moved.
    async fn open_primary(
        self: &Arc<Self>,
        timeouts: Timeouts,
        receiver: &Receiver,
    ) -> Result<Opened, StoreError> {
        let news = self.news.subscribe();
        let mut verdict = self.ask(timeouts, GRACE).await?;
        loop {
            let opening = self.open_at(&verdict.named, timeouts, receiver);
            let another = Arc::clone(self).until_another(verdict.clone(), news.clone(), timeouts);
            let mut another = Box::pin(another);
            select! {
                biased;
                opened = opening => {
                    let opened = opened?;
                    // This future continues, because it may already be asking because of a message of a sentinel.
                    let moved = Arc::clone(&receiver.moved);
                    let following = AbortOnDrop::spawn(async move {
                        another.await;
                        moved();
                    });
                    return Ok(Opened {
                        following: Some(following),
                        ..opened
                    });
                }
                other = &mut another => verdict = other,
            }
        }
    }

    async fn open_at(
        &self,
        named: &Named,
        timeouts: Timeouts,
        receiver: &Receiver,
    ) -> Result<Opened, StoreError> {
        let address = Arc::new(self.server.at(&named.place));
        let opened = address.open(timeouts, receiver.clone()).await?;
        let failed = |cause: Box<dyn Error + Send + Sync>| {
            StoreError::new("connect", &opened.endpoint, Effect::None, cause)
        };
        match is_primary(&opened.driver).await {
            Ok(true) => Ok(opened),
            Ok(false) => Err(failed(
                "the sentinels name it as the primary, but it is not one".into(),
            )),
            Err(error) => Err(failed(DriverError(error).into())),
        }
    }

    /// Waits until the sentinels name another server.
    async fn until_another(
        self: Arc<Self>,
        mut present: SentinelVerdict,
        mut news: watch::Receiver<u64>,
        timeouts: Timeouts,
    ) -> SentinelVerdict {
        let mut pauses = Backoff::doubling(LONGEST);
        let (mut told, mut asked) = (Backoff::doubling(LONGEST_IF_TOLD), Instant::now());
        loop {
            let pause = if present.is_complete {
                pauses.reset();
                CALM
            } else {
                // A sentinel that has not answered may know better, and sends no message.
                pauses.next_pause()
            };
            present.is_complete = match self.ask_in_time(pause, &mut news, timeouts).await {
                Ok(verdict) if verdict.is_another_than(&present.named) => return verdict,
                Ok(verdict) => {
                    present.named.epoch = present.named.epoch.max(verdict.named.epoch);
                    verdict.is_complete
                }
                Err(_) => false,
            };
            if asked.elapsed() > QUIET {
                told.reset();
            }
            // Many messages may arrive at the same time.
            sleep(told.next_pause()).await;
            asked = Instant::now();
        }
    }

    /// Asks all sentinels after a pause, or as soon as one of them sends a message.
    async fn ask_in_time(
        &self,
        pause: Duration,
        news: &mut watch::Receiver<u64>,
        timeouts: Timeouts,
    ) -> Result<SentinelVerdict, StoreError> {
        let unasked = async {
            sleep(pause).await;
            self.ask(timeouts, Duration::MAX).await
        };
        select! {
            biased;
            // Messages that arrive in the meantime count as well: the sentinels are asked again. The sender lives as
            // long as `self`.
            _ = news.changed() => self.ask(timeouts, GRACE).await,
            verdict = unasked => verdict,
        }
    }

    /// Asks all sentinels, and learns which other sentinels exist. After most have answered, the others have `grace`.
    /// Until then they have longer after the first answer, because most may be unreachable.
    async fn ask(
        &self,
        timeouts: Timeouts,
        grace: Duration,
    ) -> Result<SentinelVerdict, StoreError> {
        let known: Vec<_> = self.known.lock().values().cloned().collect();
        let asked = known.iter().map(|it| it.ask(&self.name, timeouts));
        let mut heard = SentinelAnswers::default();
        let hear = |answer| heard.hear(answer);
        ask_most(
            asked,
            known.len(),
            grace.max(timeouts.connect / FEW),
            grace,
            hear,
        )
        .await;
        let is_all = !self.learn(&heard);
        let count = known.len();
        match heard.named {
            Some(named) => Ok(SentinelVerdict {
                named,
                is_complete: is_all && heard.answers == count,
            }),
            None => Err(self.unnamed(heard, count)),
        }
    }

    /// The error when none of the sentinels names a primary.
    fn unnamed(&self, heard: SentinelAnswers, count: usize) -> StoreError {
        let (refused, mistake, cause) = match heard.error {
            Some(error) => {
                let mistake = mistake(&error, failure::effect(&error));
                (heard.refused, mistake, DriverError(error).into())
            }
            None => {
                let cause = "the sentinels know no primary with this name";
                let cause = Box::<dyn Error + Send + Sync>::from(cause);
                (heard.answers, Some(Mistake::Other), cause)
            }
        };
        let (effect, mistake) = if refused == count {
            (Effect::TurnedAway, mistake)
        } else {
            (Effect::None, None)
        };
        StoreError::new("connect", &self.endpoint(), effect, cause).with_mistake(mistake)
    }

    /// Adds the sentinels that were named, and forgets those that no sentinel names any more. Returns whether there are
    /// new ones, which send no messages until they are asked.
    fn learn(&self, heard: &SentinelAnswers) -> bool {
        let mut known = self.known.lock();
        let is_new = heard.others.iter().any(|it| !known.contains_key(it));
        for place in &heard.others {
            known.entry(place.clone()).or_insert_with(|| {
                let address = self.sentinel.at(place);
                Arc::new(Sentinel::new(address, self.news.clone()))
            });
        }
        // A sentinel does not name itself. The others name it.
        if heard.answers > 1 {
            known.retain(|place, _| self.seeds.contains(place) || heard.others.contains(place));
        }
        is_new
    }
}

impl Source for Sentinels {
    fn endpoint(&self) -> Arc<str> {
        format!("{} of the sentinels {}", self.name, list(&self.seeds)).into()
    }

    fn open(self: Arc<Self>, timeouts: Timeouts, receiver: Receiver) -> Opening {
        Box::pin(async move { self.open_primary(timeouts, &receiver).await })
    }

    /// Makes every connection to the primary ask the sentinels immediately. While replicas are unavailable every
    /// request doubts, so this is done at most once in a while.
    fn doubt(&self) {
        let now = Instant::now();
        let mut doubted = self.doubted.lock();
        if doubted.is_none_or(|at| now >= at + DOUBTS) {
            *doubted = Some(now);
            drop(doubted);
            self.news.send_modify(|count| *count += 1);
        }
    }

    fn close(&self) {
        self.known.lock().values().for_each(|it| it.close());
    }
}

/// The answers of the sentinels so far.
#[derive(Default)]
struct SentinelAnswers {
    named: Option<Named>,
    others: BTreeSet<Place>,
    answers: usize,
    /// The number of errors that say that it is useless to ask again.
    refused: usize,
    error: Option<RedisError>,
}

impl SentinelAnswers {
    fn hear(&mut self, answer: Result<SentinelAnswer, RedisError>) {
        match answer {
            Ok(SentinelAnswer { primary, others }) => {
                self.answers += 1;
                self.named = self.named.take().max(primary);
                self.others.extend(others);
            }
            Err(error) => {
                self.refused += usize::from(failure::effect(&error).is_refused());
                self.error = Some(error);
            }
        }
    }
}

impl SentinelVerdict {
    /// Returns whether this names another server than the present one. An earlier epoch counts if no sentinel knows the
    /// later one any more. Then the sentinels were set up again.
    fn is_another_than(&self, present: &Named) -> bool {
        self.named.place != present.place && (self.named.epoch >= present.epoch || self.is_complete)
    }
}

/// Returns whether a server is a primary. `ROLE` would also report that, but not to every user. It is used if the
/// server does not know `HELLO`.
async fn is_primary(connection: &MultiplexedConnection) -> Result<bool, RedisError> {
    let mut connection = connection.clone();
    let is_role = |role: &Value| *role == Value::BulkString(b"master".to_vec());
    let hello = cmd("HELLO").query_async(&mut connection).await;
    let hello: Result<BTreeMap<String, Value>, _> = hello;
    if hello.as_ref().is_err_and(failure::refuses_resp3) {
        let role: Vec<Value> = cmd("ROLE").query_async(&mut connection).await?;
        return Ok(role.first().is_some_and(is_role));
    }
    Ok(hello?.get("role").is_some_and(is_role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_of_the_latest_epoch_counts_whoever_is_heard_first() {
        let answer = |epoch| SentinelAnswer {
            primary: Some(Named {
                epoch,
                place: Place::new("10.0.0.1", 1),
            }),
            others: BTreeSet::new(),
        };
        for epochs in [[1, 2], [2, 1]] {
            let mut heard = SentinelAnswers::default();
            for epoch in epochs {
                heard.hear(Ok(answer(epoch)));
            }
            assert_eq!(heard.named.map(|named| named.epoch), Some(2));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sentinels_are_doubted_twice_a_second_however_many_requests_doubt() {
        let address = || Address::parse("redis://127.0.0.1:1").expect("a URL");
        let sentinels = Sentinels::new("orders", address(), address(), Vec::new());
        for _ in 0..1_000 {
            sentinels.doubt();
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(*sentinels.news.borrow(), 2);
    }
}

//! Where the primary is, as the sentinels say.
//!
//! They are asked before each connection to the primary, and again whenever one of them tells of a change. Their messages
//! are hints: only the answers count. Answers may differ while a failover is under way. Then the one with the latest
//! [configuration epoch](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#configuration-epochs)
//! counts, and the server itself has to say that it is a primary.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value, cmd};
use tokio::select;
use tokio::sync::watch;
use tokio::time::Instant;

use self::sentinel::{Answer, Named, Sentinel};
use super::ask_most::{GRACE, ask_most};
use crate::base::backoff::Backoff;
use crate::base::error::{Effect, StoreError};
use crate::base::sync::Mutex;
use crate::base::timer::sleep;
use crate::store::redis::link::address::{Address, Place, list};
use crate::store::redis::link::pushes::Receiver;
use crate::store::redis::link::source::{AbortOnDrop, Limit, Opened, Opening, Source, Timeouts};
use crate::store::redis::wire::failure::{self, DriverError};

mod sentinel;

/// Which part of the time for a connection they are waited for while fewer have answered.
const FEW: u32 = 4;

/// The longest pause, jitter aside, before they are asked again because of what they tell. A sentinel that cannot be kept
/// a connection to tells with each attempt.
const LONGEST_IF_TOLD: Duration = Duration::from_millis(250);

/// How long they must have told nothing for the pauses to begin anew.
const QUIET: Duration = Duration::from_secs(2);

/// The least time between two doubts.
const DOUBTS: Duration = Duration::from_millis(500);

/// How often the sentinels are asked although none has told anything: their messages may be lost.
const CALM: Duration = Duration::from_secs(10);

/// The longest pause, jitter aside, between two attempts to reach a sentinel that does not answer.
const LONGEST: Duration = Duration::from_secs(5);

/// The sentinels of one primary.
pub(crate) struct Sentinels {
    /// What they call the primary.
    pub(super) name: Arc<str>,
    /// How they, and the servers, are connected to: one of each.
    pub(super) sentinel: Address,
    pub(super) server: Address,
    pub(super) seeds: Vec<Place>,
    known: Mutex<BTreeMap<Place, Arc<Sentinel>>>,
    news: watch::Sender<u64>,
    doubted: Mutex<Option<Instant>>,
}

/// What the sentinels say together.
#[derive(Clone, Debug)]
struct Verdict {
    named: Named,
    /// How many replicas it has that are well, as far as any of them knows.
    replicas: u32,
    /// Whether each of them has answered.
    is_complete: bool,
}

impl Sentinels {
    /// Asks none of them yet. `sentinel` and `server` say how they and the servers are connected to, wherever they are.
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

    /// Connects to the primary. An attempt goes over to another server as soon as the sentinels name one. Once connected,
    /// the receiver is told that the connection has ended when they do.
    async fn open_primary(
        self: &Arc<Self>,
        timeouts: Timeouts,
        limit: Limit,
        receiver: &Receiver,
    ) -> Result<Opened, StoreError> {
        let news = self.news.subscribe();
        let mut verdict = self.ask(timeouts, GRACE).await?;
        loop {
            let opening = self.open_at(&verdict.named, timeouts, limit, receiver);
            let another = Arc::clone(self).until_another(verdict.clone(), news.clone(), timeouts);
            let mut another = Box::pin(another);
            select! {
                biased;
                opened = opening => {
                    let opened = opened?;
                    // It goes on, since it may be asking because of what it was told already.
                    let following = Some(follow(another, receiver));
                    let replicas = verdict.replicas;
                    return Ok(Opened { following, replicas, ..opened });
                }
                other = &mut another => verdict = other,
            }
        }
    }

    async fn open_at(
        &self,
        named: &Named,
        timeouts: Timeouts,
        limit: Limit,
        receiver: &Receiver,
    ) -> Result<Opened, StoreError> {
        let address = Arc::new(self.server.at(&named.place));
        let opened = address.open(timeouts, limit, receiver.clone()).await?;
        let failed = |cause: Box<dyn Error + Send + Sync>| {
            StoreError::new("connect", &opened.endpoint, Effect::None, cause)
        };
        match is_primary(&opened.driver).await {
            Ok(true) => Ok(opened),
            Ok(false) => Err(failed("the sentinels name it, but it is no primary".into())),
            Err(error) => Err(failed(DriverError(error).into())),
        }
    }

    /// Waits until the sentinels name another server.
    async fn until_another(
        self: Arc<Self>,
        mut present: Verdict,
        mut news: watch::Receiver<u64>,
        timeouts: Timeouts,
    ) -> Verdict {
        let mut pauses = Backoff::doubling(LONGEST);
        let (mut told, mut asked) = (Backoff::doubling(LONGEST_IF_TOLD), Instant::now());
        loop {
            let pause = if present.is_complete {
                pauses.reset();
                CALM
            } else {
                // One that has not answered may know better, and tells nothing.
                pauses.next_pause()
            };
            let unasked = async {
                sleep(pause).await;
                self.ask(timeouts, Duration::MAX).await
            };
            let verdict = select! {
                biased;
                // What is told while they answer counts as well, so they are asked again then. The sender lives as long
                // as this.
                _ = news.changed() => self.ask(timeouts, GRACE).await,
                verdict = unasked => verdict,
            };
            present.is_complete = match verdict {
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
            // They may tell much at once.
            sleep(told.next_pause()).await;
            asked = Instant::now();
        }
    }

    /// Asks all sentinels, and learns from them who they are. Once most of them have answered, the others have `grace`; and
    /// a while longer once any has, since most of them may be out of reach.
    async fn ask(&self, timeouts: Timeouts, grace: Duration) -> Result<Verdict, StoreError> {
        let known: Vec<_> = self.known.lock().values().cloned().collect();
        let asked = known.iter().map(|it| it.ask(&self.name, timeouts));
        let mut heard = Heard::default();
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
        let verdict = heard.verdict(known.len(), is_all);
        verdict
            .map_err(|(effect, cause)| StoreError::new("connect", &self.endpoint(), effect, cause))
    }

    /// Knows those that were named from now on, and forgets those that no sentinel names any more. Returns whether there
    /// are new ones, which tell nothing until they are asked.
    fn learn(&self, heard: &Heard) -> bool {
        let mut known = self.known.lock();
        let is_new = heard.others.iter().any(|it| !known.contains_key(it));
        for place in &heard.others {
            known.entry(place.clone()).or_insert_with(|| {
                let address = self.sentinel.at(place);
                Arc::new(Sentinel::new(address, self.news.clone()))
            });
        }
        // A sentinel does not name itself, and is named by the others.
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

    fn open(self: Arc<Self>, timeouts: Timeouts, limit: Limit, receiver: Receiver) -> Opening {
        Box::pin(async move { self.open_primary(timeouts, limit, &receiver).await })
    }

    /// Each connection that follows them asks them at once. Every request may doubt while replicas are away.
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

/// What was heard of the sentinels.
#[derive(Default)]
struct Heard {
    named: Option<Named>,
    others: BTreeSet<Place>,
    replicas: u32,
    answers: usize,
    /// How many of the errors say that asking again is of no use.
    refused: usize,
    error: Option<RedisError>,
}

impl Heard {
    fn hear(&mut self, answer: Result<Answer, RedisError>) {
        match answer {
            Ok(Answer {
                primary,
                others,
                replicas,
            }) => {
                self.answers += 1;
                self.replicas = self.replicas.max(replicas);
                self.named = self.named.take().max(primary);
                self.others.extend(others);
            }
            Err(error) => {
                self.refused += usize::from(failure::effect(&error).is_refused());
                self.error = Some(error);
            }
        }
    }

    /// What so many sentinels say together, which may be all that there are.
    fn verdict(
        self,
        count: usize,
        is_all: bool,
    ) -> Result<Verdict, (Effect, Box<dyn Error + Send + Sync>)> {
        let (is_refused, cause) = match (self.named, self.error) {
            (Some(named), _) => {
                return Ok(Verdict {
                    named,
                    replicas: self.replicas,
                    is_complete: is_all && self.answers == count,
                });
            }
            (None, Some(error)) => (self.refused == count, DriverError(error).into()),
            (None, None) => {
                let cause = "the sentinels know no primary of this name";
                (self.answers == count, cause.into())
            }
        };
        let effect = if is_refused {
            Effect::TurnedAway
        } else {
            Effect::None
        };
        Err((effect, cause))
    }
}

impl Verdict {
    /// An earlier epoch counts where no sentinel knows of the later one any more: they were set up anew.
    fn is_another_than(&self, present: &Named) -> bool {
        self.named.place != present.place && (self.named.epoch >= present.epoch || self.is_complete)
    }
}

/// The connection of the receiver is given up when this has named another server, as long as the result is there.
fn follow(
    another: impl Future<Output = Verdict> + Send + 'static,
    receiver: &Receiver,
) -> AbortOnDrop {
    let moved = Arc::clone(&receiver.moved);
    let task = tokio::spawn(async move {
        another.await;
        moved();
    });
    AbortOnDrop::new(&task)
}

/// Whether a server takes writes. `ROLE` and `INFO` would say it too, but not to every user.
async fn is_primary(connection: &MultiplexedConnection) -> Result<bool, RedisError> {
    let hello = cmd("HELLO").query_async(&mut connection.clone()).await;
    let hello: BTreeMap<String, Value> = hello?;
    let is_role = |role: &Value| *role == Value::BulkString(b"master".to_vec());
    Ok(hello.get("role").is_some_and(is_role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_of_the_latest_epoch_counts_whoever_is_heard_first() {
        let answer = |epoch| Answer {
            primary: Some(Named {
                epoch,
                place: Place::new("10.0.0.1", 1),
            }),
            others: BTreeSet::new(),
            replicas: 0,
        };
        for epochs in [[1, 2], [2, 1]] {
            let mut heard = Heard::default();
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

//! Where the primary is, as the sentinels say.
//!
//! They are asked before each connection to the primary, and again whenever one of them tells of a change. Their messages
//! are hints: only the answers count. Answers may differ while a failover is under way. Then the one with the latest
//! [configuration epoch](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/#configuration-epochs)
//! counts, and the server itself has to say that it is a primary.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt,
    future::pending,
    sync::Arc,
    time::Duration,
};

use deadpool_redis::redis::{RedisError, Value, aio::MultiplexedConnection, cmd};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{select, sync::watch, time::Instant};

use self::sentinel::{Answer, Named, Sentinel};
use super::{
    address::{Address, Place},
    pushes::Receiver,
    script::{self, DriverError},
    source::{Following, Limit, Opened, Opening, Source, Timeouts, open_at},
};
use crate::base::{
    backoff::growing_pauses,
    error::{Effect, StoreError},
    mutex::Mutex,
    timer::{after, sleep, sleep_until},
};

mod sentinel;

/// How long the answers of the other sentinels are waited for once most of them have answered.
const GRACE: Duration = Duration::from_millis(100);

/// The least pause between two questions of one connection.
const LEAST: Duration = Duration::from_millis(20);

/// How often the sentinels are asked although none has told anything: their messages may be lost.
const CALM: Duration = Duration::from_secs(10);

/// The longest pause, jitter aside, between two attempts to reach a sentinel that does not answer.
const LONGEST: Duration = Duration::from_secs(5);

/// The sentinels of one primary.
pub(super) struct Sentinels {
    /// What they call the primary.
    name: Arc<str>,
    /// How they, and the servers, are connected to: one of each.
    sentinel: Address,
    server: Address,
    seeds: Vec<Place>,
    known: Mutex<BTreeMap<Place, Arc<Sentinel>>>,
    news: watch::Sender<u64>,
}

/// What the sentinels say together.
#[derive(Debug)]
struct Verdict {
    named: Named,
    /// Whether each of them has answered.
    is_complete: bool,
}

impl Sentinels {
    /// Asks none of them yet. `sentinel` and `server` say how they and the servers are connected to, wherever they are.
    pub(super) fn new(name: &str, sentinel: Address, server: Address, seeds: Vec<Place>) -> Self {
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
        let mut news = self.news.subscribe();
        let Verdict { mut named, .. } = self.ask(timeouts, GRACE).await?;
        loop {
            let opening = self.open_at(&named, timeouts, limit, receiver);
            let other = self.until_another(&named, &mut news, timeouts);
            select! {
                biased;
                opened = opening => {
                    let opened = opened?;
                    let following = Some(self.follow(named, timeouts, receiver));
                    return Ok(Opened { following, ..opened });
                }
                other = other => named = other,
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
        let opened = open_at(address, timeouts, limit, receiver.clone()).await?;
        let failed = |cause: Box<dyn Error + Send + Sync>| {
            StoreError::new("connect", &opened.endpoint, Effect::None, cause)
        };
        match is_primary(&opened.driver).await {
            Ok(true) => Ok(opened),
            Ok(false) => Err(failed("the sentinels name it, but it is no primary".into())),
            Err(error) => Err(failed(DriverError(error).into())),
        }
    }

    /// The primary is followed as long as the result is there.
    fn follow(
        self: &Arc<Self>,
        named: Named,
        timeouts: Timeouts,
        receiver: &Receiver,
    ) -> Following {
        let (sentinels, ended) = (Arc::clone(self), Arc::clone(&receiver.ended));
        let mut news = self.news.subscribe();
        let task = tokio::spawn(async move {
            sentinels.until_another(&named, &mut news, timeouts).await;
            ended();
        });
        Following::new(&task)
    }

    /// Waits until the sentinels name another server.
    async fn until_another(
        &self,
        present: &Named,
        news: &mut watch::Receiver<u64>,
        timeouts: Timeouts,
    ) -> Named {
        let mut present = present.clone();
        let mut pauses = growing_pauses(LONGEST, 2.0);
        let mut pause = CALM;
        loop {
            let told = async |news: &mut watch::Receiver<u64>| {
                // The sender lives as long as this.
                let _ = news.changed().await;
                self.ask(timeouts, GRACE).await
            };
            let unasked = async {
                sleep(pause).await;
                self.ask(timeouts, Duration::MAX).await
            };
            let verdict = select! {
                biased;
                verdict = told(news) => verdict,
                verdict = unasked => verdict,
            };
            pause = match verdict {
                Ok(Verdict { named, .. })
                    if named.place != present.place && named.epoch >= present.epoch =>
                {
                    return named;
                }
                Ok(verdict) if verdict.is_complete => {
                    present.epoch = present.epoch.max(verdict.named.epoch);
                    pauses = growing_pauses(LONGEST, 2.0);
                    CALM
                }
                _ => pauses.next().unwrap_or(LONGEST),
            };
            // They may tell much at once.
            sleep(LEAST).await;
        }
    }

    /// Asks all sentinels, and learns from them who they are. Once most of them have answered, the others have `grace`.
    async fn ask(&self, timeouts: Timeouts, grace: Duration) -> Result<Verdict, StoreError> {
        let known: Vec<_> = self.known.lock().values().cloned().collect();
        let asked = known
            .iter()
            .map(|sentinel| sentinel.ask(&self.name, timeouts));
        let mut asked = asked.collect::<FuturesUnordered<_>>();
        let mut heard = Heard::default();
        let mut until = None;
        while let Some(answer) = select! {
            biased;
            answer = asked.next() => answer,
            () = sleep_until_some(until) => None,
        } {
            heard.hear(answer);
            if heard.answers > known.len() / 2 {
                until = until.or_else(|| Some(after(Instant::now(), grace)));
            }
        }
        self.learn(&heard);
        heard
            .verdict(known.len())
            .map_err(|(effect, cause)| StoreError::new("connect", &self.endpoint(), effect, cause))
    }

    /// Knows those that were named from now on, and forgets those that no sentinel names any more.
    fn learn(&self, heard: &Heard) {
        let mut known = self.known.lock();
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
    }
}

impl Source for Sentinels {
    fn endpoint(&self) -> Arc<str> {
        let seeds: Vec<_> = self.seeds.iter().map(Place::to_string).collect();
        format!("{} of the sentinels {}", self.name, seeds.join(",")).into()
    }

    fn open(self: Arc<Self>, timeouts: Timeouts, limit: Limit, receiver: Receiver) -> Opening {
        Box::pin(async move { self.open_primary(timeouts, limit, &receiver).await })
    }

    fn may_move(&self) -> bool {
        true
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
    answers: usize,
    /// How many of the errors say that asking again is of no use.
    refused: usize,
    error: Option<RedisError>,
}

impl Heard {
    fn hear(&mut self, answer: Result<Answer, RedisError>) {
        match answer {
            Ok(Answer { primary, others }) => {
                self.answers += 1;
                self.named = self.named.take().max(primary);
                self.others.extend(others);
            }
            Err(error) => {
                self.refused += usize::from(script::effect(&error) == Effect::Refused);
                self.error = Some(error);
            }
        }
    }

    /// What so many sentinels say together.
    fn verdict(self, count: usize) -> Result<Verdict, (Effect, Box<dyn Error + Send + Sync>)> {
        let effect = |is_refused| {
            if is_refused {
                Effect::Refused
            } else {
                Effect::None
            }
        };
        match (self.named, self.error) {
            (Some(named), _) => Ok(Verdict {
                named,
                is_complete: self.answers == count,
            }),
            (None, Some(error)) => Err((effect(self.refused == count), DriverError(error).into())),
            (None, None) => {
                let cause = "the sentinels know no primary of this name";
                Err((effect(self.answers == count), cause.into()))
            }
        }
    }
}

async fn sleep_until_some(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => pending().await,
    }
}

/// Whether a server takes writes. `ROLE` and `INFO` would say it too, but not to every user.
async fn is_primary(connection: &MultiplexedConnection) -> Result<bool, RedisError> {
    let hello = cmd("HELLO").query_async(&mut connection.clone()).await;
    let hello: BTreeMap<String, Value> = hello?;
    let is_role = |role: &Value| *role == Value::BulkString(b"master".to_vec());
    Ok(hello.get("role").is_some_and(is_role))
}

/// Without what the addresses know: passwords.
impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("name", &self.name)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

//! Waits until replicas have what a server has executed.
//!
//! `WAIT` answers for what its own connection has written, and holds up whatever comes behind it. So it has a connection of
//! its own, on which a write goes before it: replicas that have that write have all that was executed before it. All
//! callers that come while one `WAIT` is under way share the next one, if they want as many replicas. Those that want more
//! or fewer have a connection of their own, since a `WAIT` for one replica would stand behind that for all of them. Asked
//! in short pieces it would too: a server that has nothing else to do looks at its limit only every 100 ms.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, Value, pipe};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::questions::{Question, Questions};
use super::replication_id::{Replication, ReplicationId};
use crate::base::error::StoreError;
use crate::base::key::LockKey;
use crate::base::option_types::{Confirmation, Replicas};
use crate::base::sync::Mutex;
use crate::base::timer::{after, timeout, timeout_at};
use crate::store::redis::link::breaker::{Breaker, Pass, Step};
use crate::store::redis::link::pushes::Receiver;
use crate::store::redis::link::source::{Limit, Opened, Source, Timeouts, open};
use crate::store::redis::wire::call::in_millis;
use crate::store::redis::wire::failure::{self, DriverError};

mod questions;
#[cfg(test)]
mod tests;

/// How long the write lives that goes before each `WAIT`.
const LIFE: Duration = Duration::from_millis(100);

/// How long one `WAIT` takes at most: how many replicas there are is looked at again after it.
const LOOK: Duration = Duration::from_secs(2);

/// Asks one server whether its replicas have what it has executed.
pub(crate) struct Confirmer {
    server: Server,
    /// Who asks for each number of replicas.
    questions: Mutex<HashMap<Replicas, UnboundedSender<Question>>>,
}

/// Who is asked.
#[derive(Clone)]
struct Server {
    /// Leads to it.
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    replication_id: ReplicationId,
    /// Whether it has another history by now.
    is_another: Arc<AtomicBool>,
}

impl Confirmer {
    /// Connects when it is asked first.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        timeouts: Timeouts,
        replication_id: ReplicationId,
    ) -> Self {
        Self {
            server: Server {
                source,
                timeouts,
                replication_id,
                is_another: Arc::default(),
            },
            questions: Mutex::default(),
        }
    }

    /// Whether so many replicas have, in time, what the server had executed before. An error says why it cannot be known.
    pub(crate) async fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
    ) -> Result<Confirmation, StoreError> {
        let (answer, answered) = oneshot::channel();
        let until = after(Instant::now(), within);
        let is_taken = Arc::<AtomicBool>::default();
        let question = Question {
            key: format!("reentry:confirm:{}", key.beside()),
            until,
            is_taken: Arc::clone(&is_taken),
            answer,
        };
        self.ask(replicas, question);
        match timeout_at(until, answered).await {
            Ok(Ok(confirmation)) => confirmation,
            // The connection failed, or leads to another server.
            Ok(Err(_)) => Ok(Confirmation::Unknown),
            Err(_elapsed) => {
                if !is_taken.load(Relaxed) {
                    // The runtime of the task that answers stands still: the next question begins another one.
                    drop(self.questions.lock().remove(&replicas));
                }
                Ok(Confirmation::Late)
            }
        }
    }

    /// Whether the server has turned out to have another history than it had when it was connected to.
    pub(crate) fn is_another(&self) -> bool {
        self.server.is_another.load(Relaxed)
    }

    fn ask(&self, replicas: Replicas, question: Question) {
        let mut questions = self.questions.lock();
        let unasked = match questions.get(&replicas) {
            Some(asked) => asked.send(question).err().map(|unasked| unasked.0),
            None => Some(question),
        };
        if let Some(question) = unasked {
            let (asked, receiver) = unbounded_channel();
            // The receiver is there.
            let _ = asked.send(question);
            questions.insert(replicas, asked);
            let answering = answer(self.server.clone(), replicas, receiver);
            drop(tokio::spawn(answering));
        }
    }
}

/// Serves the questions for one number of replicas until no more is asked, or another server answers. One that fails is
/// tried again by the rule of the connection for commands.
async fn answer(server: Server, replicas: Replicas, coming: UnboundedReceiver<Question>) {
    let (mut questions, mut breaker) = (Questions::new(coming), Breaker::default());
    let (replication_id, mut connected) = (&server.replication_id, None);
    while let Some((key, asked)) = questions.next().await {
        let Some((opened, pass)) = &mut connected else {
            connected = server.connect(&mut breaker, &mut questions).await;
            continue;
        };
        let wanted = replicas.of(replication_id.replicas());
        let waited = wait(&mut opened.driver, &key, wanted, server.timeouts);
        let waited = questions.meanwhile(waited).await;
        match waited {
            Waited::For { count, now } if replication_id.goes_on(&now) => {
                breaker.answered(*pass, false, Instant::now());
                // More replicas may have come.
                if replicas.of(replication_id.replicas()) <= count {
                    questions.confirm(asked);
                }
            }
            // Nothing counts unless it is the server that has executed it.
            Waited::For { .. } | Waited::Another => {
                return server.is_another.store(true, Relaxed);
            }
            Waited::Refused(error) => {
                breaker.answered(*pass, false, Instant::now());
                questions.fail(&failed(&opened.endpoint, error), |it| it.key == key);
            }
            Waited::Unanswered(error) => {
                let error = failed(&opened.endpoint, error);
                questions.fail(&error, |_| true);
                breaker.lost(*pass, error, Instant::now());
                connected = None;
            }
        }
    }
}

impl Server {
    /// Connects, or waits until that may be tried again. All callers are told if it fails.
    async fn connect(
        &self,
        breaker: &mut Breaker,
        questions: &mut Questions,
    ) -> Option<(Opened, Pass)> {
        let Timeouts { connect, response } = self.timeouts;
        let limit = connect.saturating_add(LOOK).saturating_add(response);
        let now = Instant::now();
        let pass = match breaker.step(now) {
            Step::Go(pass) => pass,
            Step::Try(pass) => breaker.begin_trial(pass, now, limit)?,
            Step::Wait(until) => {
                questions.pause(until, breaker.failed_since(0)?).await;
                return None;
            }
        };
        let opening = open(&self.source, self.timeouts, Limit::None, Receiver::deaf());
        match questions.meanwhile(opening).await {
            Ok(opened) => Some((opened, pass)),
            Err(error) => {
                questions.fail(&error, |_| true);
                breaker.failed(pass, error, Instant::now());
                None
            }
        }
    }
}

fn failed(endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let effect = failure::effect(&error);
    StoreError::new("confirm", endpoint, effect, DriverError(error))
}

/// What a `WAIT` has come to.
enum Waited {
    /// So many replicas have it, and this is what the server says of itself.
    For { count: u32, now: Replication },
    /// The write was refused: its slot is moving, or memory is full.
    Refused(RedisError),
    /// The server is no primary.
    Another,
    /// The connection has failed, or the server does not do what it was asked for.
    Unanswered(RedisError),
}

/// Writes, and waits until so many replicas have it.
async fn wait(
    driver: &mut MultiplexedConnection,
    key: &str,
    replicas: u32,
    timeouts: Timeouts,
) -> Waited {
    let mut all = pipe();
    all.cmd("SET").arg(&[key, "", "PX"]).arg(in_millis(LIFE));
    all.cmd("WAIT").arg(replicas).arg(in_millis(LOOK));
    all.cmd("INFO").arg("replication");
    let asked = driver.send_packed_commands(&all, 0, 3);
    let answered = timeout(LOOK.saturating_add(timeouts.response), asked).await;
    let silence = |_elapsed| Err(io::Error::from(io::ErrorKind::TimedOut).into());
    let answers = answered.unwrap_or_else(silence);
    match answers.and_then(read) {
        Ok(waited) => waited,
        Err(error) => Waited::Unanswered(error),
    }
}

/// The answers to the write, the `WAIT` and the question about the replicas.
fn read(answers: Vec<Value>) -> Result<Waited, RedisError> {
    let mut answers = answers.into_iter().map(Value::extract_error);
    let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
    let (written, waited, info) = (next(), next(), next());
    let Some(now) = Replication::read(&String::from_redis_value(info?)?) else {
        return Ok(Waited::Another);
    };
    if let Err(error) = written {
        return Ok(Waited::Refused(error));
    }
    let count = u32::from_redis_value(waited?)?;
    Ok(Waited::For { count, now })
}

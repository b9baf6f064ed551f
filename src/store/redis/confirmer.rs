//! Waits until replicas have what a server has executed.
//!
//! `WAIT` answers for what its own connection has written, and holds up whatever comes behind it. So it has a connection of
//! its own, on which a write goes before it: replicas that have that write have all that was executed before it. All
//! callers that come while one `WAIT` is under way share the next one, if they want as many replicas. Those that want more
//! or fewer have a connection of their own, since a `WAIT` for one replica would stand behind that for all of them. Asked
//! in short pieces it would too: a server that has nothing else to do looks at its limit only every 100 ms.

use std::{
    collections::HashMap,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::{FromRedisValue, RedisError, Value, aio::MultiplexedConnection, pipe};
use tokio::{
    select,
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::Instant,
};

use super::{
    call::in_millis,
    failure::{self, DriverError},
    history::{History, Replication},
    pushes::Receiver,
    source::{Limit, Opened, Source, Timeouts, open},
};
use crate::base::{
    confirm::{Confirmation, Replicas},
    error::StoreError,
    key::LockKey,
    mutex::Mutex,
    timer::{after, timeout, timeout_at},
};

/// How long the write lives that goes before each `WAIT`.
const LIFE: Duration = Duration::from_millis(100);

/// How long one `WAIT` takes at most: how many replicas there are is looked at again after it.
const LOOK: Duration = Duration::from_secs(2);

/// Asks one server whether its replicas have what it has executed.
pub(super) struct Confirmer {
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
    history: History,
    /// Whether it has another history by now.
    is_another: Arc<AtomicBool>,
}

/// A caller that wants to know.
struct Question {
    /// A key in the slot of the lock, so that a cluster lets it be written here.
    key: String,
    until: Instant,
    is_taken: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<Confirmation, StoreError>>,
}

impl Confirmer {
    /// Connects when it is asked first.
    pub(super) fn new(source: Arc<dyn Source>, timeouts: Timeouts, history: History) -> Self {
        Self {
            server: Server {
                source,
                timeouts,
                history,
                is_another: Arc::default(),
            },
            questions: Mutex::default(),
        }
    }

    /// Whether so many replicas have, in time, what the server had executed before. An error says why it cannot be known.
    pub(super) async fn confirm(
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
    pub(super) fn is_another(&self) -> bool {
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
            drop(tokio::spawn(answer(
                self.server.clone(),
                replicas,
                receiver,
            )));
        }
    }
}

/// Serves the questions for one number of replicas until the connection fails, or no more is asked.
async fn answer(server: Server, replicas: Replicas, mut questions: UnboundedReceiver<Question>) {
    let Server {
        source,
        timeouts,
        history,
        is_another,
    } = server;
    let opening = open(&source, timeouts, Limit::None, Receiver::deaf());
    let mut waiting = Vec::new();
    let (mut driver, endpoint) = match opening.await {
        Ok(Opened {
            driver, endpoint, ..
        }) => (driver, endpoint),
        Err(error) => return fail(waiting, questions, &error),
    };
    loop {
        while let Ok(question) = questions.try_recv() {
            waiting.push(question.taken());
        }
        let now = Instant::now();
        waiting.retain(|it: &Question| now < it.until && !it.answer.is_closed());
        let Some(first) = waiting.first() else {
            match questions.recv().await {
                Some(question) => waiting.push(question.taken()),
                None => return,
            }
            continue;
        };
        let (key, asked) = (first.key.clone(), waiting.len());
        let wanted = replicas.of(history.replicas());
        let waited = {
            let mut waited = pin!(wait(&mut driver, &key, wanted, timeouts));
            loop {
                select! {
                    biased;
                    waited = &mut waited => break waited,
                    // They are for the next one.
                    Some(question) = questions.recv() => waiting.push(question.taken()),
                }
            }
        };
        match waited {
            Waited::For { count, now } => {
                // Nothing counts unless it is the server that has executed it.
                if !history.goes_on(&now) {
                    return is_another.store(true, Relaxed);
                }
                // More replicas may have come.
                if replicas.of(history.replicas()) <= count {
                    for question in waiting.drain(..asked) {
                        // The caller may have given up.
                        let _ = question.answer.send(Ok(Confirmation::Confirmed));
                    }
                }
            }
            Waited::Another => return is_another.store(true, Relaxed),
            Waited::Refused(error) => {
                let error = failed(&endpoint, error);
                let is_meant = |it: &mut Question| it.key == key;
                for question in waiting.extract_if(.., is_meant) {
                    let _ = question.answer.send(Err(error.clone()));
                }
            }
            Waited::Unanswered(error) => {
                return fail(waiting, questions, &failed(&endpoint, error));
            }
        }
    }
}

/// Tells all who ask, and have asked, why they are not answered.
fn fail(waiting: Vec<Question>, mut questions: UnboundedReceiver<Question>, error: &StoreError) {
    questions.close();
    let later = std::iter::from_fn(|| questions.try_recv().ok());
    for question in waiting.into_iter().chain(later) {
        // The caller may have given up.
        let _ = question.answer.send(Err(error.clone()));
    }
}

fn failed(endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let effect = failure::effect(&error);
    StoreError::new("confirm", endpoint, effect, DriverError(error))
}

impl Question {
    fn taken(self) -> Self {
        self.is_taken.store(true, Relaxed);
        self
    }
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
    all.cmd("SET")
        .arg(key)
        .arg("")
        .arg("PX")
        .arg(in_millis(LIFE));
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

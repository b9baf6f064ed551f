//! The confirmer, which waits until replicas have what a server has executed.
//!
//! `WAIT` responds for what its own connection has written, and delays whatever comes behind it. So it has a connection
//! of its own, on which a write is sent before it. Replicas that have that write have everything that was executed
//! before it. All callers that arrive while one `WAIT` is in progress share the next one. They want the same number of
//! replicas, that of their `Locks`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, Value, pipe};
use tokio::select;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::replication_id::ReplicationId;
use crate::base::error::StoreError;
use crate::base::key::LockKey;
use crate::base::option_types::Confirmation;
use crate::base::sync::Mutex;
use crate::base::timer::{after, sleep_until, timeout_at};
use crate::store::redis::link::breaker::{Breaker, News, Pass, Step};
use crate::store::redis::link::source::{Opened, Receiver, Source, Timeouts, open};
use crate::store::redis::wire::call::in_millis;
use crate::store::redis::wire::failure::{failed, within};

#[cfg(test)]
mod tests;

/// The expiry of the write before each `WAIT`.
const LIFE: Duration = Duration::from_millis(100);

/// The limit of one `WAIT`. Those who ask meanwhile wait for the next one.
const LOOK: Duration = Duration::from_secs(2);

/// The confirmer of one server, which asks whether its replicas have what the server has executed.
pub(crate) struct Confirmer {
    server: AskedServer,
    /// The channel to the task that responds.
    questions: Mutex<Option<UnboundedSender<Question>>>,
}

/// The server that is asked.
#[derive(Clone)]
struct AskedServer {
    /// Opens connections to the server.
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    replication_id: ReplicationId,
    /// Whether another server now responds in its place.
    is_another: Arc<AtomicBool>,
}

impl Confirmer {
    /// A confirmer, which connects at the first question.
    pub(crate) fn new(
        source: Arc<dyn Source>,
        timeouts: Timeouts,
        replication_id: ReplicationId,
    ) -> Self {
        Self {
            server: AskedServer {
                source,
                timeouts,
                replication_id,
                is_another: Arc::default(),
            },
            questions: Mutex::default(),
        }
    }

    /// Waits until this number of replicas has what the server has executed before this call. An error says why that
    /// cannot be known.
    pub(crate) async fn confirm(
        &self,
        key: &LockKey,
        replicas: u32,
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
                    // The runtime of the task that responds is stalled: the next question begins another task.
                    drop(self.questions.lock().take());
                }
                Ok(Confirmation::Late)
            }
        }
    }

    /// Returns whether another server now responds in the place of the one that was connected to.
    pub(crate) fn is_another(&self) -> bool {
        self.server.is_another.load(Relaxed)
    }

    fn ask(&self, replicas: u32, question: Question) {
        let mut questions = self.questions.lock();
        let unasked = match &*questions {
            Some(asked) => asked.send(question).err().map(|unasked| unasked.0),
            None => Some(question),
        };
        if let Some(question) = unasked {
            let (asked, receiver) = unbounded_channel();
            // The receiver is there.
            let _ = asked.send(question);
            *questions = Some(asked);
            let answering = answer(self.server.clone(), replicas, receiver);
            drop(tokio::spawn(answering));
        }
    }
}

/// Serves the questions until no more are asked, or another server responds. After a
/// failure, the question is repeated by the rule of the connection for commands.
async fn answer(server: AskedServer, replicas: u32, coming: UnboundedReceiver<Question>) {
    let (mut questions, mut breaker) = (Questions::new(coming), Breaker::default());
    let mut connected = None;
    while let Some((key, asked)) = questions.next().await {
        let Some((opened, pass)) = &mut connected else {
            connected = server.connect(&mut breaker, &mut questions).await;
            continue;
        };
        let waited = wait(&mut opened.driver, &key, replicas, server.timeouts);
        let waited = questions.meanwhile(waited).await;
        match waited {
            Waited::For { count, now } if now == server.replication_id => {
                breaker.hear(*pass, News::Answered { only_reads: false }, Instant::now());
                if replicas <= count {
                    questions.confirm(asked);
                }
            }
            // Another server has not executed what the callers want to have confirmed.
            Waited::For { .. } | Waited::Another => {
                return server.is_another.store(true, Relaxed);
            }
            Waited::Refused(error) => {
                breaker.hear(*pass, News::Answered { only_reads: false }, Instant::now());
                questions.fail(&failed("confirm", &opened.endpoint, error), |it| {
                    it.key == key
                });
            }
            Waited::Unanswered(error) => {
                let error = failed("confirm", &opened.endpoint, error);
                questions.fail(&error, |_| true);
                breaker.hear(*pass, News::Lost(error), Instant::now());
                connected = None;
            }
        }
    }
}

impl AskedServer {
    /// Connects, or waits until another attempt is allowed. If it fails, all callers get the error.
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
        let opening = open(&self.source, self.timeouts, Receiver::deaf());
        match questions.meanwhile(opening).await {
            Ok(opened) => Some((opened, pass)),
            Err(error) => {
                questions.fail(&error, |_| true);
                breaker.hear(pass, News::Failed(error), Instant::now());
                None
            }
        }
    }
}

/// The outcome of a `WAIT`.
enum Waited {
    /// This number of replicas has the write. The server has this ID.
    For { count: u32, now: ReplicationId },
    /// The write was rejected, for example because its slot is moving, or memory is full.
    Refused(RedisError),
    /// The server is not a primary.
    Another,
    /// The connection has failed, or the response cannot be read.
    Unanswered(RedisError),
}

/// Writes, and waits until this number of replicas has the write.
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
    let answers = within(LOOK.saturating_add(timeouts.response), asked).await;
    answers.and_then(read).unwrap_or_else(Waited::Unanswered)
}

/// Reads the responses to the write, the `WAIT` and `INFO`.
fn read(answers: Vec<Value>) -> Result<Waited, RedisError> {
    let mut answers = answers.into_iter().map(Value::extract_error);
    let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
    let (written, waited, info) = (next(), next(), next());
    let Some(now) = ReplicationId::read(&String::from_redis_value(info?)?) else {
        return Ok(Waited::Another);
    };
    if let Err(error) = written {
        return Ok(Waited::Refused(error));
    }
    let count = u32::from_redis_value(waited?)?;
    Ok(Waited::For { count, now })
}

/// The question of a caller.
pub(super) struct Question {
    /// A key in the slot of the lock, which a cluster allows this server to write.
    pub(super) key: String,
    pub(super) until: Instant,
    pub(super) is_taken: Arc<AtomicBool>,
    pub(super) answer: oneshot::Sender<Result<Confirmation, StoreError>>,
}

/// The questions that are not answered yet, and the channel for further ones.
pub(super) struct Questions {
    waiting: Vec<Question>,
    coming: UnboundedReceiver<Question>,
}

impl Questions {
    pub(super) fn new(coming: UnboundedReceiver<Question>) -> Self {
        Self {
            waiting: Vec::new(),
            coming,
        }
    }

    /// Waits for a question. Returns the key of the first question, and the number of questions; `None` if no more will
    /// be asked.
    pub(super) async fn next(&mut self) -> Option<(String, usize)> {
        loop {
            while let Ok(question) = self.coming.try_recv() {
                self.take(question);
            }
            let now = Instant::now();
            let is_open = |it: &Question| now < it.until && !it.answer.is_closed();
            self.waiting.retain(is_open);
            if let Some(first) = self.waiting.first() {
                return Some((first.key.clone(), self.waiting.len()));
            }
            let question = self.coming.recv().await?;
            self.take(question);
        }
    }

    /// Collects the questions that arrive during `work`. It does not answer them.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            select! {
                biased;
                done = &mut work => return done,
                Some(question) = self.coming.recv() => self.take(question),
            }
        }
    }

    /// Waits until an instant. Callers whose time ends before that get the error immediately.
    pub(super) async fn pause(&mut self, until: Instant, error: &StoreError) {
        let mut pause = pin!(sleep_until(until));
        loop {
            self.fail(error, |it| it.until <= until);
            select! {
                biased;
                () = &mut pause => return,
                Some(question) = self.coming.recv() => self.take(question),
            }
        }
    }

    fn take(&mut self, question: Question) {
        question.is_taken.store(true, Relaxed);
        self.waiting.push(question);
    }

    /// Confirms the first `asked` questions: the replicas have what was executed.
    pub(super) fn confirm(&mut self, asked: usize) {
        for question in self.waiting.drain(..asked) {
            // The caller may have given up.
            let _ = question.answer.send(Ok(Confirmation::Confirmed));
        }
    }

    /// Fails some questions with an error.
    pub(super) fn fail(&mut self, error: &StoreError, is_meant: impl Fn(&Question) -> bool) {
        for question in self.waiting.extract_if(.., |it| is_meant(it)) {
            // The caller may have given up.
            let _ = question.answer.send(Err(error.clone()));
        }
    }
}

//! Waits until replicas have what a server has executed.
//!
//! `WAIT` answers for what its own connection has written, and holds up whatever comes behind it. So it has a connection of
//! its own, on which a write goes before it: replicas that have that write have all that was executed before it. All
//! callers that come while one `WAIT` is under way share the next one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use deadpool_redis::redis::{RedisError, aio::MultiplexedConnection, cmd, pipe};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::Instant,
};

use super::{
    pushes::Receiver,
    script::millis,
    source::{Limit, Opened, Source, Timeouts, open},
};
use crate::{
    base::{
        confirm::Replicas,
        key::LockKey,
        mutex::Mutex,
        timer::{after, timeout, timeout_at},
    },
    store::Confirmation,
};

/// How long the write lives that goes before each `WAIT`.
const LIFE: Duration = Duration::from_millis(100);

/// What a server calls its data: it changes with each failover and each restart.
pub(super) type History = Arc<str>;

/// Asks one server whether its replicas have what it has executed.
pub(super) struct Confirmer {
    /// Leads to that server.
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    history: History,
    /// The most replicas that the server has had since it was connected to, also as others say: one that is missing may
    /// be promoted.
    most: Arc<AtomicU32>,
    questions: Mutex<Option<UnboundedSender<Question>>>,
}

/// A caller that wants to know.
struct Question {
    /// A key in the slot of the lock, so that a cluster lets it be written here.
    key: String,
    replicas: Replicas,
    until: Instant,
    answer: oneshot::Sender<Confirmation>,
}

impl Confirmer {
    /// Connects when it is asked first. Others say that the server has so many replicas.
    pub(super) fn new(
        source: Arc<dyn Source>,
        timeouts: Timeouts,
        history: History,
        replicas: u32,
    ) -> Self {
        Self {
            source,
            timeouts,
            history,
            most: Arc::new(AtomicU32::new(replicas)),
            questions: Mutex::default(),
        }
    }

    /// Whether so many replicas have, in time, what the server had executed before.
    pub(super) async fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
    ) -> Confirmation {
        let (answer, answered) = oneshot::channel();
        let until = after(Instant::now(), within);
        self.ask(Question {
            key: format!("reentry:confirm:{}", key.beside()),
            replicas,
            until,
            answer,
        });
        match timeout_at(until, answered).await {
            Ok(Ok(confirmation)) => confirmation,
            // The connection failed, or leads to another server.
            Ok(Err(_)) => Confirmation::Unknown,
            Err(_elapsed) => Confirmation::Late,
        }
    }

    fn ask(&self, question: Question) {
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
            drop(tokio::spawn(answer(
                Arc::clone(&self.source),
                self.timeouts,
                Arc::clone(&self.history),
                Arc::clone(&self.most),
                receiver,
            )));
        }
    }
}

/// Answers until the connection fails, or no more is asked. What is left then is not answered.
async fn answer(
    source: Arc<dyn Source>,
    timeouts: Timeouts,
    history: History,
    most: Arc<AtomicU32>,
    mut questions: UnboundedReceiver<Question>,
) {
    let Ok(Opened { mut driver, .. }) =
        open(&source, timeouts, Limit::None, Receiver::deaf()).await
    else {
        return;
    };
    let Ok(mut replication) = Replication::of(&mut driver, timeouts).await else {
        return;
    };
    let mut waiting = Vec::new();
    while replication.history == history {
        if waiting.is_empty() {
            let Some(question) = questions.recv().await else {
                return;
            };
            waiting.push(question);
        }
        while let Ok(question) = questions.try_recv() {
            waiting.push(question);
        }
        let now = Instant::now();
        waiting.retain(|question: &Question| now < question.until && !question.answer.is_closed());
        // Another connection may have known more.
        let all = most
            .fetch_max(replication.replicas, Relaxed)
            .max(replication.replicas);
        let fewest = waiting
            .iter()
            .map(|question| question.replicas.of(all))
            .min();
        let soonest = waiting.iter().min_by_key(|question| question.until);
        let (Some(fewest), Some(soonest)) = (fewest, soonest) else {
            continue;
        };
        let Ok(have) = wait(&mut driver, &soonest.key, fewest, soonest.until, timeouts).await
        else {
            return;
        };
        if waiting.iter().any(|question| question.replicas.are_all()) {
            // More of them may have come.
            match Replication::of(&mut driver, timeouts).await {
                Ok(now) => replication = now,
                Err(_) => return,
            }
        }
        let all = all.max(replication.replicas);
        let (done, left) = waiting
            .into_iter()
            .partition(|question| question.replicas.of(all) <= have);
        waiting = left;
        let done: Vec<Question> = done;
        for question in done {
            // The caller may have given up.
            let _ = question.answer.send(Confirmation::Confirmed);
        }
    }
}

/// Writes, and waits until so many replicas have it. Returns how many do.
async fn wait(
    driver: &mut MultiplexedConnection,
    key: &str,
    replicas: u32,
    until: Instant,
    timeouts: Timeouts,
) -> Result<u32, Failed> {
    let within = until.saturating_duration_since(Instant::now());
    // 0 would be for ever.
    let limit = millis(within).max(1);
    let mut both = pipe();
    both.cmd("SET")
        .arg(key)
        .arg("")
        .arg("PX")
        .arg(millis(LIFE))
        .ignore();
    both.cmd("WAIT").arg(replicas).arg(limit);
    let asked = both.query_async::<(u32,)>(driver);
    let answered = timeout(within.saturating_add(timeouts.response), asked).await;
    let (have,) = answered.map_err(|_| Failed)?.map_err(|_| Failed)?;
    Ok(have)
}

/// There is no answer, or it is an error.
struct Failed;

impl From<RedisError> for Failed {
    fn from(_: RedisError) -> Self {
        Self
    }
}

/// What a server says of itself and its replicas.
struct Replication {
    history: History,
    replicas: u32,
}

impl Replication {
    async fn of(driver: &mut MultiplexedConnection, timeouts: Timeouts) -> Result<Self, Failed> {
        let mut info = cmd("INFO");
        let asked = info.arg("replication").query_async::<String>(driver);
        let info = timeout(timeouts.response, asked)
            .await
            .map_err(|_| Failed)??;
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        Ok(Self {
            history: of("master_replid:").ok_or(Failed)?.into(),
            replicas: of("connected_slaves:")
                .and_then(|it| it.parse().ok())
                .ok_or(Failed)?,
        })
    }
}

/// What the server that answers calls its data; `None` if it does not say so.
pub(super) async fn history(driver: &MultiplexedConnection, timeouts: Timeouts) -> Option<History> {
    let replication = Replication::of(&mut driver.clone(), timeouts).await;
    replication.ok().map(|replication| replication.history)
}

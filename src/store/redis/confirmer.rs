//! Waits until replicas have what a server has executed.
//!
//! `WAIT` answers for what its own connection has written, and holds up whatever comes behind it. So it has a connection of
//! its own, on which a write goes before it: replicas that have that write have all that was executed before it. All
//! callers that come while one `WAIT` is under way share the next one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use deadpool_redis::redis::{FromRedisValue, Value, aio::MultiplexedConnection, pipe};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::Instant,
};

use super::{
    call::millis,
    history::{History, Replication},
    pushes::Receiver,
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

/// Asks one server whether its replicas have what it has executed.
pub(super) struct Confirmer {
    server: Server,
    questions: Mutex<Option<UnboundedSender<Question>>>,
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
    replicas: Replicas,
    until: Instant,
    is_taken: Arc<AtomicBool>,
    answer: oneshot::Sender<Confirmation>,
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

    /// Whether so many replicas have, in time, what the server had executed before.
    pub(super) async fn confirm(
        &self,
        key: &LockKey,
        replicas: Replicas,
        within: Duration,
    ) -> Confirmation {
        let (answer, answered) = oneshot::channel();
        let until = after(Instant::now(), within);
        let is_taken = Arc::<AtomicBool>::default();
        self.ask(Question {
            key: format!("reentry:confirm:{}", key.beside()),
            replicas,
            until,
            is_taken: Arc::clone(&is_taken),
            answer,
        });
        match timeout_at(until, answered).await {
            Ok(Ok(confirmation)) => confirmation,
            // The connection failed, or leads to another server.
            Ok(Err(_)) => Confirmation::Unknown,
            Err(_elapsed) => {
                if !is_taken.load(Relaxed) {
                    // The runtime of the task that answers stands still: the next question begins another one.
                    drop(self.questions.lock().take());
                }
                Confirmation::Late
            }
        }
    }

    /// Whether the server has turned out to have another history than it had when it was connected to.
    pub(super) fn is_another(&self) -> bool {
        self.server.is_another.load(Relaxed)
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
            drop(tokio::spawn(answer(self.server.clone(), receiver)));
        }
    }
}

/// Serves the questions until the connection fails, or no more is asked. What is left then is not answered.
async fn answer(server: Server, mut questions: UnboundedReceiver<Question>) {
    let Server {
        source,
        timeouts,
        history,
        is_another,
    } = server;
    let opening = open(&source, timeouts, Limit::None, Receiver::deaf());
    let Ok(Opened { mut driver, .. }) = opening.await else {
        return;
    };
    let mut waiting = Vec::new();
    loop {
        if waiting.is_empty() {
            match questions.recv().await {
                Some(question) => waiting.push(question),
                None => return,
            }
        }
        while let Ok(question) = questions.try_recv() {
            waiting.push(question);
        }
        let now = Instant::now();
        waiting.retain(|question: &Question| {
            question.is_taken.store(true, Relaxed);
            now < question.until && !question.answer.is_closed()
        });
        let soonest = waiting.iter().map(|question| question.until).min();
        let (Some(first), Some(until)) = (waiting.first(), soonest) else {
            continue;
        };
        // The number of the first one: no stream of those that want fewer keeps it waiting.
        let replicas = first.replicas.of(history.replicas());
        let key = first.key.clone();
        match wait(&mut driver, &key, replicas, until, timeouts).await {
            Waited::For { replicas, now } => {
                // Nothing counts unless it is the server that has executed it. More replicas may have come.
                if !history.goes_on(&now) {
                    return is_another.store(true, Relaxed);
                }
                let have = |it: &Question| it.replicas.of(history.replicas()) <= replicas;
                let (done, left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(have);
                waiting = left;
                for question in done {
                    // The caller may have given up.
                    let _ = question.answer.send(Confirmation::Confirmed);
                }
            }
            Waited::Refused => waiting.retain(|question| question.key != key),
            Waited::Another => return is_another.store(true, Relaxed),
            Waited::Unanswered => return,
        }
    }
}

/// What a `WAIT` has come to.
enum Waited {
    /// So many replicas have it, and this is what the server says of itself.
    For {
        replicas: u32,
        now: Replication,
    },
    /// The write was refused: its slot is moving, or memory is full.
    Refused,
    /// The server is no primary.
    Another,
    Unanswered,
}

/// Writes, and waits until so many replicas have it.
async fn wait(
    driver: &mut MultiplexedConnection,
    key: &str,
    replicas: u32,
    until: Instant,
    timeouts: Timeouts,
) -> Waited {
    let within = until.saturating_duration_since(Instant::now());
    // 0 would be for ever.
    let limit = millis(within).max(1);
    let mut all = pipe();
    all.cmd("SET").arg(key).arg("").arg("PX").arg(millis(LIFE));
    all.cmd("WAIT").arg(replicas).arg(limit);
    all.cmd("INFO").arg("replication");
    let asked = driver.send_packed_commands(&all, 0, 3);
    let answered = timeout(within.saturating_add(timeouts.response), asked).await;
    let Ok(Ok(answers)) = answered else {
        return Waited::Unanswered;
    };
    let Ok([written, waited, info]) = <[Value; 3]>::try_from(answers) else {
        return Waited::Unanswered;
    };
    let Ok(info) = info
        .extract_error()
        .and_then(|it| Ok(String::from_redis_value(it)?))
    else {
        return Waited::Unanswered;
    };
    let Some(now) = Replication::read(&info) else {
        return Waited::Another;
    };
    if written.extract_error().is_err() {
        return Waited::Refused;
    }
    let waited = waited
        .extract_error()
        .and_then(|it| Ok(u32::from_redis_value(it)?));
    waited.map_or(Waited::Unanswered, |replicas| Waited::For { replicas, now })
}

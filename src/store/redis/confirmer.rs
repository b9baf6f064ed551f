//! Waits until replicas have what a server has executed.
//!
//! `WAIT` answers for what its own connection has written, and holds up whatever comes behind it. So it has a connection of
//! its own, on which a write goes before it: replicas that have that write have all that was executed before it. All
//! callers that come while one `WAIT` is under way share the next one, if they want as many replicas. Those that want more
//! or fewer have a connection of their own, since a `WAIT` for one replica would stand behind that for all of them. Asked
//! in short pieces it would too: a server that has nothing else to do looks at its limit only every 100 ms.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use deadpool_redis::redis::{FromRedisValue, Value, aio::MultiplexedConnection, pipe};
use tokio::{
    select,
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
            Ok(Err(_)) => Confirmation::Unknown,
            Err(_elapsed) => {
                if !is_taken.load(Relaxed) {
                    // The runtime of the task that answers stands still: the next question begins another one.
                    drop(self.questions.lock().remove(&replicas));
                }
                Confirmation::Late
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

/// Serves the questions for one number of replicas until the connection fails, or no more is asked. What is left then is
/// not answered.
async fn answer(server: Server, replicas: Replicas, mut questions: UnboundedReceiver<Question>) {
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
                        let _ = question.answer.send(Confirmation::Confirmed);
                    }
                }
            }
            Waited::Refused => waiting.retain(|question| question.key != key),
            Waited::Another => return is_another.store(true, Relaxed),
            Waited::Unanswered => return,
        }
    }
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
    For {
        count: u32,
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
    timeouts: Timeouts,
) -> Waited {
    let mut all = pipe();
    all.cmd("SET").arg(key).arg("").arg("PX").arg(millis(LIFE));
    all.cmd("WAIT").arg(replicas).arg(millis(LOOK));
    all.cmd("INFO").arg("replication");
    let asked = driver.send_packed_commands(&all, 0, 3);
    let answered = timeout(LOOK.saturating_add(timeouts.response), asked).await;
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
    waited.map_or(Waited::Unanswered, |count| Waited::For { count, now })
}

//! The connection of one process to the server, as the store of the crate's own code. A request is executed or not,
//! once or twice, immediately or late. Its response arrives, arrives late, or never arrives. The process sees what a
//! real connection would show.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::select;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::climate::{Climate, Fate};
use super::ledger::Ledger;
use super::mailbox::Mailbox;
use super::server::Server;
use super::wire::Wire;
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::InboxId;
use crate::base::sync::Mutex;
use crate::store::{
    self, ForcedReleaseListener, MemoryStore, MessageListener, Reply, Request, StoreFuture,
};

/// The crate's store in one process.
#[derive(Clone)]
pub(super) struct Link(Arc<Connection>);

/// The state of the connection for requests in flight.
struct Connection {
    wire: Arc<Wire>,
    response_timeout: Duration,
    /// Counts the connections that were lost.
    disconnects: AtomicU64,
    /// A channel for each receiver, because it is random which of several receivers of one channel wakes first.
    watchers: Mutex<Vec<watch::Sender<u64>>>,
    /// Counts the connections that were opened.
    connections: AtomicU64,
    /// Counts the requests that were sent.
    requests: AtomicU64,
    /// The fate of every request, if it is not random.
    fate: Mutex<Option<Fate>>,
    mailbox: Mutex<Option<Arc<Mailbox>>>,
    /// Whether the server refuses subscriptions.
    has_no_messages: AtomicBool,
}

/// The time at which a request may be executed a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    Unanswered,
    Anyway,
}

/// The way in which a request ends that is not answered.
enum Failed {
    Refused,
    Silent,
}

impl Link {
    pub(super) fn new(
        server: &Arc<Server>,
        ledger: &Arc<Ledger>,
        climate: Climate,
        response_timeout: Duration,
    ) -> Self {
        Self(Arc::new(Connection {
            wire: Wire::new(server, ledger, climate),
            response_timeout,
            disconnects: AtomicU64::new(0),
            watchers: Mutex::default(),
            connections: AtomicU64::new(1),
            requests: AtomicU64::new(0),
            fate: Mutex::default(),
            mailbox: Mutex::default(),
            has_no_messages: AtomicBool::new(false),
        }))
    }

    /// The connection for commands ends, or that of the inbox, or both.
    pub(super) fn cut(&self, commands: bool, inbox: bool) {
        if commands || inbox {
            self.0.lose_connection();
        }
        let mailbox = self.0.mailbox.lock().clone();
        if let Some(mailbox) = mailbox.filter(|_| inbox) {
            mailbox.cut();
        }
    }

    /// The connection of the inbox stays open, and delivers nothing any more.
    pub(super) fn deafen(&self) {
        if let Some(mailbox) = &*self.0.mailbox.lock() {
            mailbox.deafen();
        }
    }

    /// The process never gets a message, and knows that.
    pub(super) fn refuse_messages(&self) {
        self.0.has_no_messages.store(true, Relaxed);
    }

    /// From now on every request has this fate. `None` leaves it to the climate again.
    pub(super) fn set_fate(&self, fate: Option<Fate>) {
        *self.0.fate.lock() = fate;
    }

    /// The connection of the inbox ends, and that for commands is replaced.
    pub(super) fn flap(&self) {
        self.0.replace_connection();
        let mailbox = self.0.mailbox.lock().clone();
        if let Some(mailbox) = mailbox {
            mailbox.cut();
        }
    }

    /// Returns whether a message about a lock that moves to this process arrives immediately.
    pub(super) fn receives(&self) -> bool {
        let mailbox = self.0.mailbox.lock();
        mailbox.as_ref().is_some_and(|mailbox| mailbox.is_open())
    }

    /// The number of requests that were sent so far.
    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Relaxed)
    }

    /// Returns whether the process knows that messages do not arrive.
    pub(super) fn is_broken(&self) -> bool {
        let mailbox = self.0.mailbox.lock();
        mailbox.as_ref().is_some_and(|mailbox| mailbox.is_broken())
    }

    pub(super) fn kill(&self) {
        self.0.wire.kill();
    }
}

impl Connection {
    fn lose_connection(&self) {
        self.disconnects.fetch_add(1, Relaxed);
        self.begin_generation();
    }

    /// The next request has another connection. Those in flight may still be answered.
    fn replace_connection(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.begin_generation();
    }

    fn begin_generation(&self) {
        let generation = self.generation();
        let mut watchers = self.watchers.lock();
        watchers.retain(|watcher| watcher.send(generation).is_ok());
    }

    fn generation(&self) -> u64 {
        self.connections.load(Relaxed) + self.disconnects.load(Relaxed)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        let (sender, receiver) = watch::channel(self.generation());
        self.watchers.lock().push(sender);
        receiver
    }

    fn fate(&self) -> Fate {
        match *self.fate.lock() {
            _ if self.wire.server.is_calm() => Fate::good(),
            Some(fate) => fate,
            None if self.wire.climate.network => Fate::bad(),
            None => Fate::good(),
        }
    }

    /// Carries a request to the server and its response back.
    async fn take_there(
        self: Arc<Self>,
        repeats: Repeats,
        request: Request,
        answer: oneshot::Sender<Result<Reply, Failed>>,
    ) {
        let fate = self.fate();
        let disconnects = self.disconnects.load(Relaxed);
        sleep(fate.there).await;
        if self.wire.server.is_down() {
            // The sender may not learn of it, because the connection may be gone.
            let _ = answer.send(Err(Failed::Refused));
            return;
        }
        let was_cut = self.disconnects.load(Relaxed) != disconnects;
        if !fate.arrives || was_cut && !fate.survives_a_cut {
            return;
        }
        let reply = self.wire.execute(&request).await;
        // A request for a lock that was answered is not sent again. A copy of any other request may arrive at any time.
        let answered = fate.answered && (fate.again.is_none() || repeats == Repeats::Anyway);
        let back = async {
            sleep(fate.back).await;
            if answered && !self.wire.is_dead() {
                // The caller may have stopped waiting.
                let _ = answer.send(Ok(reply));
            }
        };
        let again = async {
            if let Some(later) = fate.again {
                sleep(later).await;
                drop(self.wire.execute(&request).await);
            }
        };
        tokio::join!(back, again);
    }
}

impl store::Wire for Link {
    fn store(&self) -> &MemoryStore {
        self.0.wire.server.store()
    }

    fn carry(&self, request: Request) -> StoreFuture<Reply> {
        let connection = Arc::clone(&self.0);
        // It is sent at the first poll, and is in flight from then on, whether or not a caller waits for it.
        Box::pin(async move {
            let step = request.name();
            let server = Arc::from("the server");
            let failure = |class, cause| Err(StoreError::new(step, &server, class, cause));
            if connection.wire.is_dead() {
                // There is no process that could try again.
                return failure(FailureClass::Permanent, "killed");
            }
            connection.requests.fetch_add(1, Relaxed);
            let mut generations = connection.watch();
            let disconnects = connection.disconnects.load(Relaxed);
            let cut = async {
                while connection.disconnects.load(Relaxed) == disconnects {
                    // The sender outlives this future.
                    let _ = generations.changed().await;
                }
            };
            let repeats = match step {
                "acquire" | "acquire_shared" => Repeats::Unanswered,
                _ => Repeats::Anyway,
            };
            let (answer, answered) = oneshot::channel();
            drop(tokio::spawn(
                Arc::clone(&connection).take_there(repeats, request, answer),
            ));
            let answered = async {
                match answered.await {
                    Ok(answer) => answer,
                    Err(_lost) => std::future::pending().await,
                }
            };
            let failed = select! {
                biased;
                answered = timeout(connection.response_timeout, answered) => match answered {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(failed)) => failed,
                    Err(_silence) => {
                        // The next request has another connection.
                        connection.replace_connection();
                        Failed::Silent
                    }
                },
                () = cut => Failed::Silent,
            };
            match failed {
                Failed::Refused => failure(FailureClass::NotExecuted, "refused"),
                Failed::Silent => failure(FailureClass::OutcomeUnknown, "no answer"),
            }
        })
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn MessageListener>) -> bool {
        if self.0.has_no_messages.load(Relaxed) {
            return false;
        }
        let mut mailbox = self.0.mailbox.lock();
        if mailbox.is_none() {
            let opened = Arc::new(Mailbox::new(Arc::downgrade(&self.0.wire), listener));
            let weak: Weak<dyn MessageListener> = Arc::<Mailbox>::downgrade(&opened);
            self.0.wire.server.store().listen(inbox, weak);
            // A real store has to connect first.
            opened.open();
            *mailbox = Some(opened);
        }
        mailbox.as_ref().is_some_and(|mailbox| !mailbox.is_broken())
    }

    fn watch(&self, _: Weak<dyn ForcedReleaseListener>) {}

    /// The requests in flight may still be answered.
    fn suspect(&self, _since: Instant) {
        self.0.replace_connection();
    }

    fn generations(&self) -> watch::Receiver<u64> {
        self.0.watch()
    }

    fn generation(&self) -> u64 {
        self.0.generation()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

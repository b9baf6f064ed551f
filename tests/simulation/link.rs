//! The connection of one process to the server: the real code's store. A request is executed or not,
//! once or twice, at once or late, and its answer comes, or comes late, or never; what the process
//! learns of it is what a real connection would show.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    select,
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};

use super::{
    climate::{Climate, Fate},
    ledger::Ledger,
    mailbox::Mailbox,
    server::Server,
    wire::Wire,
};
use crate::{
    base::{
        error::{Effect, StoreError},
        id::{HoldId, InboxId},
        key::LockKey,
        mutex::Mutex,
    },
    store::{
        AcquireAllReply, AcquireReply, AcquireRequest, Answer, DepthChange, Downgrading, HoldOf,
        Keeping, Listener, Presence, ReleaseReply, ReleaseRequest, Renewal, Seen, ShareRequest,
        Snapshot, Store, memory::MemoryStore, survey::Survey, waits::Waits,
    },
};

mod several;

/// The crate's store in one process.
#[derive(Clone)]
pub(super) struct Link(Arc<Connection>);

/// What requests that are under way know of their connection.
struct Connection {
    wire: Arc<Wire>,
    response_timeout: Duration,
    /// Counts the connections that were lost.
    disconnects: AtomicU64,
    /// A channel for each receiver: which of several receivers of one channel wakes
    /// first is left to chance.
    watchers: Mutex<Vec<watch::Sender<u64>>>,
    /// Counts those that were made.
    connections: AtomicU64,
    /// Counts the requests that were sent.
    requests: AtomicU64,
    /// What becomes of every request, where it is not left to chance.
    fate: Mutex<Option<Fate>>,
    mailbox: Mutex<Option<Arc<Mailbox>>>,
}

/// When a request may be executed a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    Unanswered,
    Anyway,
}

/// How a request ends that is not answered.
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

    /// The connection of the inbox stays, and brings nothing any more.
    pub(super) fn deafen(&self) {
        if let Some(mailbox) = &*self.0.mailbox.lock() {
            mailbox.deafen();
        }
    }

    /// From now on every request has this fate; `None` leaves it to the climate again.
    pub(super) fn set_fate(&self, fate: Option<Fate>) {
        *self.0.fate.lock() = fate;
    }

    /// The connection of the inbox ends, and that for commands goes on undisturbed.
    pub(super) fn flap(&self) {
        self.0.connections.fetch_add(1, Relaxed);
        let mailbox = self.0.mailbox.lock().clone();
        if let Some(mailbox) = mailbox {
            mailbox.cut();
        }
    }

    /// Whether a message about a lock that moves to this process reaches it at once.
    pub(super) fn receives(&self) -> bool {
        let mailbox = self.0.mailbox.lock();
        mailbox.as_ref().is_some_and(|mailbox| mailbox.is_open())
    }

    /// How many requests were sent so far.
    pub(super) fn requests(&self) -> u64 {
        self.0.requests.load(Relaxed)
    }

    /// Whether it knows that it is not.
    pub(super) fn is_broken(&self) -> bool {
        let mailbox = self.0.mailbox.lock();
        mailbox.as_ref().is_some_and(|mailbox| mailbox.is_broken())
    }

    pub(super) fn kill(&self) {
        self.0.wire.kill();
    }

    pub(super) fn request<T: Send + 'static>(
        &self,
        step: &'static str,
        ask: impl Fn(&MemoryStore) -> Answer<T> + Send + Sync + 'static,
    ) -> Answer<T> {
        let connection = Arc::clone(&self.0);
        // Sent at the first poll, and on its way from then on, whether or not a caller waits for it.
        Box::pin(async move {
            let server = Arc::from("the server");
            let failure = |effect, cause| Err(StoreError::new(step, &server, effect, cause));
            if connection.wire.is_dead() {
                // No process is there to try again.
                return failure(Effect::Refused, "killed");
            }
            connection.requests.fetch_add(1, Relaxed);
            let mut disconnects = connection.watch();
            let repeats = match step {
                "acquire" | "share" | "acquire_all" => Repeats::Unanswered,
                _ => Repeats::Anyway,
            };
            let (answer, answered) = oneshot::channel();
            drop(tokio::spawn(
                Arc::clone(&connection).carry(repeats, ask, answer),
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
                        connection.connections.fetch_add(1, Relaxed);
                        Failed::Silent
                    }
                },
                Ok(()) = disconnects.changed() => Failed::Silent,
            };
            match failed {
                Failed::Refused => failure(Effect::None, "refused"),
                Failed::Silent => failure(Effect::Unknown, "no answer"),
            }
        })
    }
}

impl Connection {
    fn lose_connection(&self) {
        let count = self.disconnects.fetch_add(1, Relaxed) + 1;
        let mut watchers = self.watchers.lock();
        watchers.retain(|watcher| watcher.send(count).is_ok());
    }

    fn watch(&self) -> watch::Receiver<u64> {
        let (sender, receiver) = watch::channel(self.disconnects.load(Relaxed));
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

    /// Takes a request to the server and its answer back.
    async fn carry<T>(
        self: Arc<Self>,
        repeats: Repeats,
        ask: impl Fn(&MemoryStore) -> Answer<T> + Send + Sync,
        answer: oneshot::Sender<Result<T, Failed>>,
    ) {
        let fate = self.fate();
        let disconnects = self.disconnects.load(Relaxed);
        sleep(fate.there).await;
        if self.wire.server.is_down() {
            // The sender may not hear of it: the connection may be gone.
            let _ = answer.send(Err(Failed::Refused));
            return;
        }
        let was_cut = self.disconnects.load(Relaxed) != disconnects;
        if !fate.arrives || was_cut && !fate.survives_a_cut {
            return;
        }
        let reply = self.wire.server.execute(&ask).await;
        // A request for a lock that was answered is not sent again. Of the other requests a copy may come
        // at any time.
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
                drop(self.wire.server.execute(&ask).await);
            }
        };
        tokio::join!(back, again);
    }
}

impl Store for Link {
    fn acquire(&self, key: &LockKey, request: AcquireRequest) -> Answer<AcquireReply> {
        let (key, ledger) = (key.clone(), Arc::clone(&self.0.wire.ledger));
        self.request("acquire", move |store| {
            let answer = store.acquire(&key, request);
            let (key, ledger) = (key.clone(), Arc::clone(&ledger));
            Box::pin(async move {
                let acquired = answer.await?;
                if let AcquireReply::Held { token, lease, .. } = acquired {
                    ledger.given(key.as_str(), request.hold, token, lease);
                }
                Ok(acquired)
            })
        })
    }

    fn depth(&self, key: &LockKey, change: DepthChange) -> Answer<Presence> {
        let key = key.clone();
        self.request("depth", move |store| store.depth(&key, change))
    }

    fn renew(&self, key: &LockKey, renewal: Renewal) -> Answer<Presence> {
        let key = key.clone();
        self.request("renew", move |store| store.renew(&key, renewal))
    }

    fn share(&self, key: &LockKey, request: ShareRequest) -> Answer<Vec<AcquireReply>> {
        self.share_lock(key, request)
    }

    fn keep(&self, key: &LockKey, keeping: Keeping) -> Answer<Vec<HoldId>> {
        self.keep_readers(key, keeping)
    }

    fn downgrade(&self, key: &LockKey, downgrading: Downgrading) -> Answer<Presence> {
        self.downgrade_hold(key, downgrading)
    }

    fn release(&self, key: &LockKey, request: ReleaseRequest) -> Answer<ReleaseReply> {
        let (key, ledger) = (key.clone(), Arc::clone(&self.0.wire.ledger));
        self.request("release", move |store| {
            let answer = store.release(&key, request);
            let (key, ledger) = (key.clone(), Arc::clone(&ledger));
            Box::pin(async move {
                let released = answer.await?;
                ledger.released(key.as_str(), request.hold);
                if let (Some(AcquireReply::Held { token, lease, .. }), Some(successor)) =
                    (released.successor, request.successor)
                {
                    ledger.given(key.as_str(), successor.hold, token, lease);
                }
                Ok(released)
            })
        })
    }

    fn acquire_all(
        &self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
    ) -> Answer<AcquireAllReply> {
        self.take_several(keys, hold, ttl)
    }

    fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Answer<Option<usize>> {
        self.renew_several(holds, ttl)
    }

    fn release_all(&self, holds: &[HoldOf]) -> Answer<Vec<bool>> {
        self.end_several(holds)
    }

    fn inspect(&self, key: &LockKey) -> Answer<Option<Snapshot>> {
        let key = key.clone();
        self.request("inspect", move |store| store.inspect(&key))
    }

    fn force_release(&self, key: &LockKey, seen: Seen) -> Answer<Vec<Vec<u8>>> {
        let key = key.clone();
        self.request("force_release", move |store| {
            store.force_release(&key, seen.clone())
        })
    }

    fn waits(&self) -> &dyn Waits {
        self
    }

    fn survey(&self) -> &dyn Survey {
        self.0.wire.server.survey()
    }

    fn listen(&self, inbox: InboxId, listener: Weak<dyn Listener>) -> bool {
        let mut mailbox = self.0.mailbox.lock();
        if mailbox.is_none() {
            let opened = Arc::new(Mailbox::new(Arc::downgrade(&self.0.wire), listener));
            let weak: Weak<dyn Listener> = Arc::<Mailbox>::downgrade(&opened);
            self.0.wire.server.listen(inbox, weak);
            // A real one has to connect first.
            opened.open();
            *mailbox = Some(opened);
        }
        mailbox.as_ref().is_some_and(|mailbox| !mailbox.is_broken())
    }

    fn check_subscription(&self) {
        if let Some(mailbox) = &*self.0.mailbox.lock() {
            mailbox.check_subscription();
        }
    }

    fn suspect(&self, _key: &LockKey, _since: Instant) {
        self.0.connections.fetch_add(1, Relaxed);
    }

    fn disconnects(&self) -> watch::Receiver<u64> {
        self.0.watch()
    }

    fn disconnects_of(&self, _key: &LockKey) -> u64 {
        self.0.disconnects.load(Relaxed)
    }

    fn connection_epochs(&self) -> u64 {
        self.0.connections.load(Relaxed) + self.0.disconnects.load(Relaxed)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

//! Several processes at one lock, and the order in which their waiters have their turns.
//!
//! Two `Locks` that were built separately are two processes to the lock's queue. Each has an inbox and a place of its
//! own there.

use super::rig::KEY;
use super::server::RedisServer;
use super::stores::{Section, patient, waiters};
use super::wait::{DEADLINE, eventually, within};
use reentry::__admin::{HoldId, Ids as _};
use reentry::{FencingToken, LockGuard, LockRequest, Locks, LocksBuilder, held};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A lease that no test outlives.
pub const TTL: Duration = Duration::from_secs(60);

/// A heartbeat so slow that no waiter sends a request only because time has passed, within a test.
pub const RARELY: Duration = Duration::from_secs(20);

/// Locks on `server` whose waiters send a request when an event occurs, and not because time passes.
pub fn unhurried(server: &RedisServer) -> LocksBuilder {
    patient(server).ttl(TTL).__heartbeat(RARELY)
}

/// Locks on `server` whose waiters send a request only when an event occurs: a heartbeat is longer than any wait of a
/// test, so that it lets no waiter in.
pub fn only_by_events(server: &RedisServer) -> LocksBuilder {
    let heartbeat = 3 * DEADLINE;
    let builder = patient(server).ttl(10 * heartbeat).__heartbeat(heartbeat);
    builder.wait(Duration::MAX)
}

/// `N` processes on one server.
pub async fn processes<const N: usize>(builder: &LocksBuilder) -> [Locks; N] {
    let mut built = Vec::new();
    for _ in 0..N {
        built.push(builder.clone().build().await.expect("locks"));
    }
    built.try_into().expect("as many")
}

/// The number of processes in the queue of the lock, read without a script. The scores of tombstones begin at 2^52.
pub async fn queued(server: &RedisServer) -> u64 {
    let count = format!("ZCOUNT reentry:queue:{{{KEY}}}:{KEY} -inf ({}", 1_u64 << 52);
    server.ask(&count).await.parse().expect("a number")
}

/// Waits until this number of processes is in the queue of the lock.
pub async fn until_queued(server: &RedisServer, count: u64) {
    let standing = async || queued(server).await == count;
    eventually(DEADLINE, &format!("{count} in the queue"), standing).await;
}

/// A lock that one process has and another one waits for, with its turn to come.
pub async fn held_and_wanted(
    server: &RedisServer,
    builder: &LocksBuilder,
) -> (LockGuard, Turns, [Locks; 2]) {
    let both @ [holder, waiter] = &processes(builder).await;
    let guard = holder.lock(KEY).await.expect("a free lock");
    let mut turns = Turns::default();
    turns.request(waiter.lock(KEY), "waiter");
    until_queued(server, 1).await;
    (guard, turns, both.clone())
}

/// One turn, with its waiter and the lock as seen from inside.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The name of the waiter.
    pub name: String,
    /// The fencing token.
    pub token: FencingToken,
    /// The hold.
    pub hold: HoldId,
    /// The depth.
    pub depth: u32,
}

/// A turn that lasts until it is ended.
#[derive(Debug)]
pub struct Stay {
    has_entered: oneshot::Receiver<()>,
    leave: oneshot::Sender<()>,
}

impl Stay {
    /// Waits until the turn has begun.
    pub async fn entered(&mut self) {
        let entered = within(DEADLINE, "the next one enters", &mut self.has_entered);
        entered.await.expect("a turn");
    }

    /// Returns whether the turn has begun.
    pub fn has_entered(&mut self) -> bool {
        self.has_entered.try_recv().is_ok()
    }

    /// Ends the turn.
    pub fn leave(self) {
        self.leave.send(()).expect("a turn that goes on");
    }
}

/// The turns at the lock so far, and the waiters that have not had a turn yet. A turn notices when it overlaps with
/// another one.
#[derive(Debug, Default)]
pub struct Turns {
    seen: Arc<Mutex<Vec<Turn>>>,
    section: Arc<Section>,
    tasks: JoinSet<()>,
}

impl Turns {
    /// The turn of a waiter called `name`.
    pub fn turn(&self, name: &str) -> impl Future<Output = ()> + Send + use<> {
        let (section, note) = (Arc::clone(&self.section), self.note(name));
        async move {
            note();
            section.visit().await;
        }
    }

    /// Records the turn that the caller has.
    fn note(&self, name: &str) -> impl FnOnce() + Send + use<> {
        let (seen, name) = (Arc::clone(&self.seen), name.to_owned());
        move || {
            let held = held(KEY).expect("the lock");
            let turn = Turn {
                name,
                token: held.fencing_token(),
                hold: held.hold_id(),
                depth: held.depth(),
            };
            seen.lock().expect("no panic").push(turn);
        }
    }

    /// Adds a waiter that stays inside until its turn is ended.
    pub fn stay(&mut self, request: LockRequest, name: &str) -> Stay {
        let (section, note) = (Arc::clone(&self.section), self.note(name));
        let (entered, has_entered) = oneshot::channel();
        let (leave, may_leave) = oneshot::channel();
        let body = async move {
            note();
            let stay = async {
                // The test may have ended by then, in either case.
                let _ = entered.send(());
                let _ = may_leave.await;
            };
            section.visit_until(stay).await;
        };
        self.tasks
            .spawn(async move { request.run(body).await.expect("its turn") });
        Stay { has_entered, leave }
    }

    /// Adds a waiter called `name`.
    pub fn request(&mut self, request: LockRequest, name: &str) {
        let turn = self.turn(name);
        self.tasks
            .spawn(async move { request.run(turn).await.expect("its turn") });
    }

    /// Adds a waiter, and waits until it is in the queue of its process.
    pub async fn come(&mut self, locks: &Locks, name: &str) {
        let before = waiters(locks, KEY).await.expect("a lock that is held");
        self.request(locks.lock(KEY), name);
        let has_come = async || waiters(locks, KEY).await == Some(before + 1);
        eventually(DEADLINE, &format!("{name} is in the queue"), has_come).await;
    }

    /// The turns so far.
    pub fn so_far(&self) -> Vec<Turn> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Waits until every waiter has had a turn. Returns all turns.
    pub async fn all(&mut self) -> Vec<Turn> {
        let all = async { while self.tasks.join_next().await.transpose().unwrap().is_some() {} };
        within(2 * DEADLINE, "all have their turns", all).await;
        self.so_far()
    }

    /// Waits until every waiter has had a turn. Returns their names.
    pub async fn names(&mut self) -> Vec<String> {
        self.all().await.into_iter().map(|turn| turn.name).collect()
    }
}

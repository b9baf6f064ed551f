//! Random operations on the in-memory store and on Redis. Both must give the same replies.
//!
//! Mounted by `src/store/mod.rs` as `store::differential`.
//!
//! Time is exact on both. It passes only in the steps that say so: here on the paused tokio clock, and on the server by
//! moving every expiry. Waits are multiples of three minutes. TTLs and the lives of the siblings are numbers of minutes
//! that three does not divide. So nothing ends within a minute of the moment at which it is read. The milliseconds of
//! real time that a case takes on the server have no effect.
//!
//! Tokens come from two clocks, so only their order is compared. The messages that inboxes receive are compared at the
//! end of a case. On Redis a message of the test itself shows that no more are in flight.

use std::cell::RefCell;

use futures_util::future;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::runtime::{Builder, Runtime};

use self::reply::Reply;
use self::request::{INBOXES, KEYS, Request, Step, any_request, any_steps, hold, inbox, key};
use super::contract::inbox::{Inbox, fence};
use super::contract::server::Server;
use super::contract::world::near;
use super::{
    ForceRelease, HandoffMessage, Inspect, ListWaits, MemoryStore, SeenHolders, Snapshot, Store,
    StoreTime,
};
use crate::base::error::StoreError;
use crate::base::id::FencingToken;

mod reply;
mod request;

/// The minimum number of cases. `PROPTEST_CASES` sets a higher one.
const CASES: u32 = 2_000;

/// The numbers of the inboxes.
const IDS: [usize; INBOXES] = [0, 1, 2];

/// The number of requests that are sent in parallel. It is so low that `try_join_all` polls them in their order.
const AT_ONCE: usize = 16;

#[test]
fn memory_and_redis_give_the_same_answers() {
    compare_both(false, CASES);
}

/// Requests that travel together may be overtaken, so in this case they are sent one after the other.
#[test]
fn memory_and_redis_with_batches_give_the_same_answers() {
    compare_both(true, CASES / 8);
}

fn compare_both(with_batches: bool, cases: u32) {
    let mut config = ProptestConfig::default();
    config.cases = config.cases.max(CASES) * cases / CASES;
    config.failure_persistence = None;
    let redis = OnRedis::start(with_batches);
    let outcome = TestRunner::new(config).run(&any_steps(), |steps| Case::new(&redis).run(&steps));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// The server that all cases share, with a runtime whose clock is the real one.
struct OnRedis {
    /// Whether all short requests travel in batches.
    with_batches: bool,
    runtime: Runtime,
    server: Server,
    store: Store,
    inboxes: RefCell<[Inbox; INBOXES]>,
}

impl OnRedis {
    fn start(with_batches: bool) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let server = runtime.block_on(Server::start());
        let server = if with_batches {
            server.with_batches()
        } else {
            server.without_batches()
        };
        let store = runtime.block_on(server.store());
        let inboxes = IDS.map(|at| runtime.block_on(Inbox::on_redis(&server, inbox(at))));
        let warm = runtime.block_on(warm(&store, with_batches));
        warm.expect("a store that works");
        let redis = Self {
            with_batches,
            runtime,
            server,
            store,
            inboxes: RefCell::new(inboxes),
        };
        drop(redis.received());
        redis
    }

    /// The messages that each inbox has received since the last call.
    fn received(&self) -> [Vec<HandoffMessage>; INBOXES] {
        let mut inboxes = self.inboxes.borrow_mut();
        self.runtime.block_on(fence(&self.server, IDS.map(inbox)));
        let inboxes = inboxes.each_mut();
        inboxes.map(|inbox| self.runtime.block_on(inbox.received_there()))
    }
}

/// Loads every script. Otherwise a script that has to be sent twice would be overtaken by the request after it.
async fn warm(store: &Store, with_batches: bool) -> Result<(), StoreError> {
    let (mut runner, any, known) = (TestRunner::deterministic(), any_request(0), now(store));
    let known = known.await?;
    store.ask(Inspect::of(&key(0))).await?;
    for _ in 0..1_000 {
        let request = any.new_tree(&mut runner).expect("a request").current();
        request.send(store, known, with_batches).await?;
    }
    let (fields, token) = (vec![Vec::new()], None);
    let (key, seen) = (key(0), SeenHolders { fields, token });
    store.ask(ForceRelease { key, seen }).await.map(drop)
}

/// The time of the store.
async fn now(store: &Store) -> Result<StoreTime, StoreError> {
    Ok(store.ask(ListWaits { hold: hold(0) }).await?.at)
}

/// One sequence of steps on both stores.
struct Case<'a> {
    redis: &'a OnRedis,
    memory: Store,
    inboxes: [Inbox; INBOXES],
    /// The clock of the in-memory store, which is stopped unless it is moved.
    paused: Runtime,
    /// The requests up to now, each once, and the requests that have not been sent yet.
    known: Vec<(usize, Request)>,
    unsent: Vec<(usize, Request)>,
    /// The result of an inspection after each step: the key, then the holder in memory and on Redis.
    seen: Vec<(usize, [SeenHolders; 2])>,
    /// Every token so far, by key: in memory and on Redis.
    tokens: Vec<(usize, [FencingToken; 2])>,
}

impl<'a> Case<'a> {
    fn new(redis: &'a OnRedis) -> Self {
        redis.runtime.block_on(redis.server.flush());
        let paused = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let memory = paused.block_on(async { Store::Memory(MemoryStore::new()) });
        Self {
            redis,
            inboxes: IDS.map(|at| Inbox::in_memory(&memory, inbox(at))),
            memory,
            paused,
            known: Vec::new(),
            unsent: Vec::new(),
            seen: Vec::new(),
            tokens: Vec::new(),
        }
    }

    fn run(mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        let outcome = steps.iter().try_for_each(|step| self.step(step));
        let outcome = outcome.and_then(|()| self.send());
        // This is also done for a case that failed, because its messages must not reach the next one.
        let received = self.redis.received();
        outcome?;
        self.compare_messages(received)?;
        let immortal = self.redis.runtime.block_on(self.redis.server.immortal());
        prop_assert!(immortal.is_empty(), "no expiry: {immortal:?}");
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Send(key, request) => {
                self.known.push((*key, request.clone()));
                self.unsent.push((*key, request.clone()));
            }
            Step::Resend(which) => self.unsent.extend(pick(which, &self.known)),
            Step::ForceRelease(which) => {
                self.send()?;
                if let Some((key, seen)) = pick(which, &self.seen) {
                    self.force_release(key, seen)?;
                }
            }
            &Step::Wait(span) => {
                self.send()?;
                let redis = self.redis;
                self.paused.block_on(tokio::time::advance(span));
                redis.runtime.block_on(redis.server.pass(span));
            }
        }
        Ok(())
    }

    /// Sends the collected requests in parallel. A store without batches executes them in the order of sending.
    fn send(&mut self) -> Result<(), TestCaseError> {
        let requests = std::mem::take(&mut self.unsent);
        let at_once = if self.redis.with_batches { 1 } else { AT_ONCE };
        for requests in requests.chunks(at_once) {
            let redis = self.redis;
            let with_batches = redis.with_batches;
            let answers = |runtime: &Runtime, store: &Store| {
                let known = runtime.block_on(now(store)).expect("the time");
                let answers = requests.iter().map(async |(at, request)| {
                    let answer = request.clone().send(store, known, with_batches);
                    let look = async { store.ask(Inspect::of(&key(*at))).await };
                    if with_batches {
                        Ok((answer.await?, look.await?))
                    } else {
                        future::try_join(answer, look).await
                    }
                });
                runtime.block_on(future::try_join_all(answers))
            };
            let here = answers(&self.paused, &self.memory).expect("memory");
            let there = answers(&redis.runtime, &redis.store).expect("a server that works");
            for ((at, _), (here, there)) in requests.iter().zip(here.into_iter().zip(there)) {
                self.compare(*at, here, there)?;
            }
        }
        Ok(())
    }

    /// Compares the messages that the inboxes have received in this case.
    fn compare_messages(
        &mut self,
        there: [Vec<HandoffMessage>; INBOXES],
    ) -> Result<(), TestCaseError> {
        let here = self.inboxes.each_mut().map(Inbox::received_here);
        for (inbox, (here, there)) in here.into_iter().zip(there).enumerate() {
            prop_assert_eq!(here.len(), there.len(), "{:?} {:?}", here, there);
            for (here, there) in here.into_iter().zip(there) {
                let at = (0..KEYS).find(|at| key(*at).as_str() == here.key);
                let at = at.expect("a key of the case");
                let [here, there] = [here, there].map(|message| Reply::Message(inbox, message));
                self.same(at, here, there)?;
            }
        }
        Ok(())
    }

    fn force_release(&mut self, at: usize, seen: [SeenHolders; 2]) -> Result<(), TestCaseError> {
        let (key, redis, [here, there]) = (key(at), self.redis, seen);
        let force = |seen| ForceRelease {
            key: key.clone(),
            seen,
        };
        let here = self.memory.ask(force(here));
        let there = redis.store.ask(force(there));
        let here = future::try_join(here, self.memory.ask(Inspect::of(&key)));
        let there = future::try_join(there, redis.store.ask(Inspect::of(&key)));
        let here = self.paused.block_on(here).expect("memory");
        let there = redis.runtime.block_on(there).expect("a server that works");
        let [here, there] =
            [here, there].map(|(forced, shown)| (Reply::Forced(forced.len()), shown));
        self.compare(at, here, there)
    }

    /// Compares the replies of both stores to a request, and an inspection of the lock after it.
    fn compare(
        &mut self,
        key: usize,
        here: (Reply, Option<Snapshot>),
        there: (Reply, Option<Snapshot>),
    ) -> Result<(), TestCaseError> {
        self.same(key, here.0, there.0)?;
        let seen = [here.1.clone(), there.1.clone()].map(|shown| shown.map(Snapshot::seen));
        if let [Some(here), Some(there)] = seen {
            self.seen.push((key, [here, there]));
        }
        self.same(key, Reply::Snapshot(here.1), Reply::Snapshot(there.1))
    }

    fn same(&mut self, key: usize, memory: Reply, redis: Reply) -> Result<(), TestCaseError> {
        let [here, there] = [&memory, &redis].map(|reply| reply.clone().parts());
        // In both stores, a token must compare with each earlier one in the same way.
        let order = |of: [FencingToken; 2]| {
            let all = self.tokens.iter().filter(|(known, _)| *known == key);
            let mut all = all.map(|(_, [here, there])| (of[0].cmp(here), of[1].cmp(there)));
            all.all(|(here, there)| here == there)
        };
        let agree = here.plain == there.plain
            && match (here.span, there.span) {
                (Some(here), Some(there)) => near(here, there),
                (here, there) => here == there,
            }
            && match (here.token, there.token) {
                (Some(here), Some(there)) => order([here, there]),
                (here, there) => here == there,
            };
        prop_assert!(agree, "memory: {memory:?}, Redis: {redis:?}");
        if let (Some(here), Some(there)) = (here.token, there.token) {
            self.tokens.push((key, [here, there]));
        }
        Ok(())
    }
}

fn pick<T: Clone>(which: &Index, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| which.get(from).clone())
}

//! The same random operations on the in-memory store and on Redis must give the same answers.
//!
//! Time is exact on both: it passes only in the steps that say so, on the paused tokio clock here
//! and by moving every expiry there. Waits are multiples of three minutes; TTLs and the lives of
//! the siblings are minutes that three does not divide. So nothing ends within a minute of the
//! moment at which it is looked at, and the milliseconds of real time that a case takes on the
//! server decide nothing.
//!
//! Tokens come from two clocks, so they are compared by their order.

use futures_util::future;
use proptest::{prelude::*, sample::Index, test_runner::TestRunner};
use tokio::runtime::{Builder, Runtime};

use self::step::{Names, Reply, Request, Step, any_steps};
use super::{
    Seen, Snapshot, Store,
    contract::world::{Server, near},
    memory::MemoryStore,
    redis::RedisStore,
};
use crate::{error::StoreError, id::FencingToken};

mod step;

/// At least so many; `PROPTEST_CASES` asks for more.
const CASES: u32 = 2_000;

/// How many requests are sent at once: so few that `try_join_all` polls them in their order.
const BATCH: usize = 16;

#[test]
fn memory_and_redis_give_the_same_answers() {
    let mut config = ProptestConfig::default();
    config.cases = config.cases.max(CASES);
    config.failure_persistence = None;
    let redis = OnRedis::start();
    let outcome = TestRunner::new(config).run(&any_steps(), |steps| Case::new(&redis).run(&steps));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// The server that all cases share, with a runtime whose clock is the real one.
struct OnRedis {
    runtime: Runtime,
    server: Server,
    store: RedisStore,
}

impl OnRedis {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let server = runtime.block_on(Server::start());
        let store = runtime.block_on(server.store());
        runtime.block_on(warm(&store)).expect("a store that works");
        Self {
            runtime,
            server,
            store,
        }
    }
}

/// Has every script loaded: one that has to be sent twice is overtaken by what was sent after it.
async fn warm(store: &RedisStore) -> Result<(), StoreError> {
    let names = Names::new();
    for request in Request::of_each_kind() {
        names.send(store, 0, request).await?;
    }
    let (field, token) = (String::new(), None);
    let nothing = Seen { field, token };
    store.force_release(names.key(0), nothing).await?;
    store.inspect(names.key(0)).await.map(drop)
}

/// One sequence of steps on both stores.
struct Case<'a> {
    redis: &'a OnRedis,
    memory: MemoryStore,
    /// The clock of the in-memory store, which stands still unless it is moved.
    paused: Runtime,
    names: Names,
    /// The requests up to now, each once; and those that have not been sent yet.
    known: Vec<(usize, Request)>,
    unsent: Vec<(usize, Request)>,
    /// What an inspection after each step showed: the key, then the holder in memory and on Redis.
    seen: Vec<(usize, [Seen; 2])>,
    /// Every token there was, by key: in memory and on Redis.
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
        let memory = paused.block_on(async { MemoryStore::new() });
        Self {
            redis,
            memory,
            paused,
            names: Names::new(),
            known: Vec::new(),
            unsent: Vec::new(),
            seen: Vec::new(),
            tokens: Vec::new(),
        }
    }

    fn run(mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        for step in steps {
            self.step(step)?;
        }
        self.send()?;
        let immortal = self.redis.runtime.block_on(self.redis.server.immortal());
        prop_assert!(immortal.is_empty(), "no expiry: {immortal:?}");
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            &Step::Send { key, request } => {
                self.known.push((key, request));
                self.unsent.push((key, request));
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

    /// Sends what has been gathered, all at once: a store executes it in the order of sending.
    fn send(&mut self) -> Result<(), TestCaseError> {
        let requests = std::mem::take(&mut self.unsent);
        for requests in requests.chunks(BATCH) {
            let (names, redis) = (&self.names, self.redis);
            let answers = |runtime: &Runtime, store: &dyn Store| {
                let answers = requests.iter().map(|&(key, request)| {
                    let answer = names.send(store, key, request);
                    future::try_join(answer, store.inspect(names.key(key)))
                });
                runtime.block_on(future::try_join_all(answers))
            };
            let here = answers(&self.paused, &self.memory).expect("memory");
            let there = answers(&redis.runtime, &redis.store).expect("a server that works");
            for (&(key, _), (here, there)) in requests.iter().zip(here.into_iter().zip(there)) {
                self.compare(key, here, there)?;
            }
        }
        Ok(())
    }

    fn force_release(&mut self, key: usize, seen: [Seen; 2]) -> Result<(), TestCaseError> {
        let (name, redis, [here, there]) = (self.names.key(key), self.redis, seen);
        let here = self.memory.force_release(name, here);
        let there = redis.store.force_release(name, there);
        let here = future::try_join(here, self.memory.inspect(name));
        let there = future::try_join(there, redis.store.inspect(name));
        let here = self.paused.block_on(here).expect("memory");
        let there = redis.runtime.block_on(there).expect("a server that works");
        let [here, there] = [here, there].map(|(forced, shown)| (Reply::Forced(forced), shown));
        self.compare(key, here, there)
    }

    /// Compares what the two say to a request, and what they show of the lock right after.
    fn compare(
        &mut self,
        key: usize,
        here: (Reply, Option<Snapshot>),
        there: (Reply, Option<Snapshot>),
    ) -> Result<(), TestCaseError> {
        self.same(key, here.0, there.0)?;
        let seen = [here.1.clone(), there.1.clone()].map(|shown| shown.and_then(Snapshot::seen));
        if let [Some(here), Some(there)] = seen {
            self.seen.push((key, [here, there]));
        }
        self.same(key, Reply::Snapshot(here.1), Reply::Snapshot(there.1))
    }

    fn same(&mut self, key: usize, memory: Reply, redis: Reply) -> Result<(), TestCaseError> {
        let context = format!("memory: {memory:?}, Redis: {redis:?}");
        let [memory, redis] = [memory, redis].map(Reply::parts);
        prop_assert_eq!(memory.plain, redis.plain, "{}", context);
        match (memory.span, redis.span) {
            (None, None) => {}
            (Some(here), Some(there)) => prop_assert!(near(here, there), "{context}"),
            _ => prop_assert!(false, "{context}"),
        }
        match (memory.token, redis.token) {
            (None, None) => {}
            (Some(here), Some(there)) => {
                for (_, [before, then]) in self.tokens.iter().filter(|(of, _)| *of == key) {
                    prop_assert_eq!(here.cmp(before), there.cmp(then), "{}", context);
                }
                self.tokens.push((key, [here, there]));
            }
            _ => prop_assert!(false, "{context}"),
        }
        Ok(())
    }
}

fn pick<T: Clone>(which: &Index, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| which.get(from).clone())
}

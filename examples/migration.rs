//! From another lock to this one without a stop: a new program holds both locks, the new one outside and the old one inside.
//!
//! ```text
//! export REDIS_URL=redis://127.0.0.1:6379
//! cargo run --example migration            # beside programs with SET NX
//! cargo run --example migration -- hash    # beside programs with the classic scripts on a hash, or with Redisson
//! ```
//!
//! Two old and two new programs take turns at one key. They are tasks of this process.

use std::env;
use std::error::Error;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;
use reentry::Locks;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

type Failure = Box<dyn Error + Send + Sync>;

/// Runs the body under both locks of the key.
///
/// The queue of the new lock orders the new programs, and one of them at a time competes with the old programs.
pub(crate) async fn with_both<T>(
    locks: &Locks,
    old: &OldLocks,
    key: &str,
    body: impl Future<Output = T>,
) -> Result<T, Failure> {
    if reentry::held(key).is_some() {
        // A nested call. The outermost one has the old lock, which is not reentrant.
        return Ok(locks.with_lock(key, body).await?);
    }
    let both = async {
        let inner = old.acquire(key).await?;
        let output = tokio::select! {
            output = body => output,
            failure = inner.renew() => return Err(failure),
        };
        inner.release().await?;
        Ok(output)
    };
    locks.try_with_lock(key, both).await
}

/// The locks of the old programs.
#[derive(Clone)]
pub(crate) struct OldLocks {
    /// A program of its own takes a connection that connects again, such as `ConnectionManager`.
    pub(crate) redis: MultiplexedConnection,
    pub(crate) scheme: Scheme,
    /// As in the old programs.
    pub(crate) ttl: Duration,
    pub(crate) interval: Duration,
    pub(crate) wait: Duration,
}

/// Three scripts. KEYS: the key. ARGV: the owner, the time to live in ms. Each returns 1, or 0 if the owner does not have
/// the lock.
#[derive(Clone, Copy)]
pub(crate) struct Scheme {
    acquire: &'static str,
    renew: &'static str,
    release: &'static str,
}

/// A string with the owner.
pub(crate) const SET_NX: Scheme = Scheme {
    acquire: "
        return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
    renew: "
        return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0",
    release: "
        return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0",
};

/// A hash of the owner and its depth: the classic scripts, and Redisson, whose waiters sleep until the message.
pub(crate) const HASH: Scheme = Scheme {
    acquire: "
        if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
        redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    renew: "
        if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    release: "
        if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
        redis.call('DEL', KEYS[1])
        redis.call('PUBLISH', 'redisson_lock__channel:{' .. KEYS[1] .. '}', 0) -- for Redisson alone
        return 1",
};

impl OldLocks {
    /// Polls as the old programs do, until the lock is acquired or `wait` is over.
    async fn acquire(&self, key: &str) -> Result<OldLock, Failure> {
        let lock = OldLock {
            locks: self.clone(),
            key: key.to_owned(),
            owner: format!("{}:1", Uuid::new_v4()),
            is_released: false,
        };
        let acquired = async {
            while !lock.call(self.scheme.acquire).await? {
                sleep(self.interval).await;
            }
            Ok::<_, Failure>(())
        };
        timeout(self.wait, acquired).await??;
        Ok(lock)
    }
}

/// An old lock that is held, or requested.
struct OldLock {
    locks: OldLocks,
    key: String,
    owner: String,
    is_released: bool,
}

impl OldLock {
    async fn call(&self, script: &str) -> Result<bool, Failure> {
        let millis = u64::try_from(self.locks.ttl.as_millis())?;
        let mut redis = self.locks.redis.clone();
        let script = Script::new(script);
        let mut call = script.key(&*self.key);
        let call = call.arg(&*self.owner).arg(millis);
        Ok(call.invoke_async(&mut redis).await?)
    }

    /// Renews the lock until that fails.
    async fn renew(&self) -> Failure {
        loop {
            sleep(self.locks.ttl / 3).await;
            match self.call(self.locks.scheme.renew).await {
                Ok(true) => {}
                Ok(false) => return format!("the old lock of `{}` is lost", self.key).into(),
                Err(failure) => return failure,
            }
        }
    }

    /// Releases the lock. That it was lost before is an error.
    async fn release(mut self) -> Result<(), Failure> {
        self.is_released = true;
        match self.call(self.locks.scheme.release).await? {
            true => Ok(()),
            false => Err(format!("the old lock of `{}` was lost", self.key).into()),
        }
    }
}

/// A body that was dropped, or that panicked, leaves no lock to its time to live.
impl Drop for OldLock {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let lock = Self {
            locks: self.locks.clone(),
            key: self.key.clone(),
            owner: self.owner.clone(),
            is_released: true,
        };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { lock.call(lock.locks.scheme.release).await });
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = env::var("REDIS_URL").map_err(|_| "set REDIS_URL: the old locks need a server")?;
    let scheme = match env::args().nth(1).as_deref() {
        Some("hash") => HASH,
        _ => SET_NX,
    };
    let redis = redis::Client::open(&*url)?;
    let old = OldLocks {
        redis: redis.get_multiplexed_async_connection().await?,
        scheme,
        ttl: Duration::from_secs(10),
        interval: Duration::from_millis(50),
        wait: Duration::from_secs(60),
    };
    let mut programs = JoinSet::new();
    for name in ["old 1", "old 2"] {
        let old = old.clone();
        programs.spawn(async move {
            for turn in 1..=3 {
                let lock = old.acquire("order:42").await?;
                work(name, turn).await;
                lock.release().await?;
                sleep(old.interval).await;
            }
            Ok::<_, Failure>(())
        });
    }
    for name in ["new 1", "new 2"] {
        let old = old.clone();
        // The prefix keeps the keys of the new locks apart from those of the old ones.
        let locks = Locks::builder(&*url).prefix("new:").build().await?;
        programs.spawn(async move {
            for turn in 1..=3 {
                with_both(&locks, &old, "order:42", work(name, turn)).await?;
            }
            locks.close(Duration::from_secs(1)).await;
            Ok(())
        });
    }
    while let Some(ended) = programs.join_next().await {
        ended??;
    }
    Ok(())
}

async fn work(name: &str, turn: u32) {
    println!("{name}: begins turn {turn}");
    sleep(Duration::from_millis(100)).await;
    println!("{name}: ends turn {turn}");
}

//! A FIFO lock based on BLPOP: the client that pops the only token of a list holds the lock.
//!
//! The server itself gives the token to the client that has waited longest, so no hand-off can be faster. The lock has
//! no owner and no TTL: if a holder dies, its token is lost. Every waiting task needs its own connection, which is kept
//! for the next task.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::bare::{self, Script};
use crate::contestant::{Contestant, Held};

/// Puts the token into a list that has never had one.
const MAKE: &str = "
if redis.call('setnx', KEYS[2], 1) == 1 then redis.call('rpush', KEYS[1], 1) end
return 1";

/// Idle connections, and the lists that have their token.
pub(crate) struct Blpop {
    url: String,
    make: Script,
    pool: Arc<Mutex<Vec<MultiplexedConnection>>>,
    made: Mutex<HashSet<String>>,
}

impl Blpop {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let mut connection = bare::connect(url).await?;
        let make = Script::load(&mut connection, MAKE).await?;
        Ok(Self {
            url: url.to_owned(),
            make,
            pool: Arc::new(Mutex::new(vec![connection])),
            made: Mutex::default(),
        })
    }
}

#[async_trait]
impl Contestant for Blpop {
    async fn acquire(&self, key: &str) -> Result<Box<dyn Held>> {
        let idle = locked(&self.pool).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => bare::connect(&self.url).await?,
        };
        let list = format!("blpop:{key}");
        if !locked(&self.made).contains(key) {
            let keys = [list.as_str(), &format!("{list}:made")];
            let _: i64 = self.make.call(&connection, &keys, &[]).await?;
            locked(&self.made).insert(key.to_owned());
        }
        let mut pop = cmd("BLPOP");
        let _: (String, String) = pop.arg(&list).arg(0).query_async(&mut connection).await?;
        Ok(Box::new(Token {
            list,
            connection,
            pool: Arc::clone(&self.pool),
        }))
    }
}

struct Token {
    list: String,
    connection: MultiplexedConnection,
    pool: Arc<Mutex<Vec<MultiplexedConnection>>>,
}

#[async_trait]
impl Held for Token {
    async fn release(mut self: Box<Self>) -> Result<()> {
        let mut push = cmd("RPUSH");
        let pushed = push.arg(&self.list).arg(1);
        let _: i64 = pushed.query_async(&mut self.connection).await?;
        locked(&self.pool).push(self.connection);
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What does an uncontended `with_lock` cost in addition to the two round trips that it needs?
//!
//! The control is two bare EVALSHA of the acquire and release scripts of this crate on one multiplexed connection. The
//! classic scripts, which return no token, are measured as well. Run `cargo bench --bench uncontended`. To compare
//! latencies, pin it: `taskset -c 0 cargo bench --bench uncontended`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench stops at the first error"
)]

#[path = "support/mod.rs"]
mod bench;
#[path = "../tests/support/mod.rs"]
mod support;

use std::env;

use redis::aio::MultiplexedConnection;
use redis::{Client, Value, cmd};
use reentry::Locks;
use support::RedisServer;

use self::bench::{Times, report};

const CLASSIC_LOCK: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";
const CLASSIC_UNLOCK: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
return 1";
const INBOX: &str = "reentry:inbox:4f0e1d2c-0000-4000-8000-000000000001";
const FIELD: &str = "4f0e1d2c-0000-4000-8000-000000000000:1";

/// The script of this verb.
fn ours(verb: &str) -> &'static str {
    let mut scripts = reentry::__admin::scripts();
    scripts.find(|(name, _)| *name == verb).unwrap().1
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let rounds = env::var("ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_000);
    let server = RedisServer::start().await;
    let mut bare = Bare::connect(&server).await;
    let locks = Locks::connect(server.url()).await.unwrap();
    let outer = locks.lock("nested").await.unwrap();

    let mut control = Times::new("two bare EVALSHA of our scripts (control)");
    let mut again = Times::new("the control once more");
    let mut classic = Times::new("two bare EVALSHA of the classic scripts");
    let mut with_lock = Times::new("with_lock");
    let mut nested = Times::new("nested with_lock (re-entry and exit)");
    for round in 0..rounds + 500 {
        if round == 500 {
            // The first rounds are the warm-up.
            for times in [
                &mut control,
                &mut again,
                &mut classic,
                &mut with_lock,
                &mut nested,
            ] {
                *times = Times::new(times.name);
            }
        }
        for turn in 0..5 {
            match (turn + round) % 5 {
                0 => control.sample(bare.ours()).await,
                1 => {
                    with_lock
                        .sample(async { locks.with_lock("k", async {}).await.unwrap() })
                        .await
                }
                2 => classic.sample(bare.classic()).await,
                3 => again.sample(bare.ours()).await,
                _ => {
                    let entry = async { locks.with_lock("nested", async {}).await.unwrap() };
                    outer.scope(nested.sample(entry)).await.unwrap();
                }
            }
        }
    }
    report(
        "one key, nobody else",
        &[&control, &again, &classic, &with_lock, &nested],
    );
}

/// The scripts without a client library.
struct Bare {
    connection: MultiplexedConnection,
    shas: [String; 4],
}

impl Bare {
    async fn connect(server: &RedisServer) -> Self {
        // The same kind of connection as in the crate: TCP and RESP3.
        let client = Client::open(format!("{}?protocol=resp3", server.url())).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut shas = [const { String::new() }; 4];
        let [acquire, release] = ["acquire", "release"].map(ours);
        for (sha, script) in shas
            .iter_mut()
            .zip([acquire, release, CLASSIC_LOCK, CLASSIC_UNLOCK])
        {
            let mut load = cmd("SCRIPT");
            *sha = load
                .arg("LOAD")
                .arg(script)
                .query_async(&mut connection)
                .await
                .unwrap();
        }
        Self { connection, shas }
    }

    async fn ours(&mut self) {
        let keys = [
            "bare",
            "reentry:queue:{bare}:bare",
            "reentry:entries:{bare}:bare",
        ];
        let args = [FIELD, "30000", INBOX, "2000", "2000"];
        self.eval(0, &keys, &args).await;
        self.eval(1, &keys, &[FIELD]).await;
    }

    async fn classic(&mut self) {
        self.eval(2, &["classic"], &["30000", FIELD]).await;
        self.eval(3, &["classic"], &["30000", FIELD]).await;
    }

    async fn eval(&mut self, script: usize, keys: &[&str], args: &[&str]) {
        let mut call = cmd("EVALSHA");
        call.arg(&self.shas[script])
            .arg(keys.len())
            .arg(keys)
            .arg(args);
        let _: Value = call.query_async(&mut self.connection).await.unwrap();
    }
}

//! What a fencing token is for: a holder that lost its lock without noticing wants to write, and
//! the resource refuses, because it has seen a greater token.
//!
//! `cargo run --example fenced_writes`, or with `REDIS_URL=redis://127.0.0.1:6379` on a server.

use std::sync::Mutex;

use reentry::{FencingToken, LockError, Locks, OnLost};
use tokio::sync::Notify;

const KEY: &str = "account:7";

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = Locks::connect(url).await?;
    let account = Account::default();
    let taken_over = Notify::new();
    let entered = Notify::new();

    // It keeps running although its lock is taken away, as a program does that was paused.
    let slow = locks.lock(KEY).on_lost(OnLost::KeepRunning).run(async {
        let Some(held) = reentry::held(KEY) else {
            return;
        };
        entered.notify_one();
        taken_over.notified().await;
        account.write("slow", 100, held.fencing_token());
    });
    let quick = async {
        entered.notified().await;
        locks.force_release(KEY).await?;
        locks
            .with_lock(KEY, async {
                if let Some(held) = reentry::held(KEY) {
                    account.write("quick", 250, held.fencing_token());
                }
            })
            .await?;
        taken_over.notify_one();
        Ok::<_, LockError>(())
    };
    let (slow, quick) = tokio::join!(slow, quick);
    slow?;
    quick?;
    println!("the balance is {}", account.balance());
    Ok(())
}

/// The resource that the lock protects. A database does the same with the SQL of [`reentry::FenceSql`].
#[derive(Default)]
struct Account(Mutex<(i64, Option<FencingToken>)>);

impl Account {
    fn write(&self, who: &str, amount: i64, token: FencingToken) {
        let mut state = self.state();
        let (balance, newest) = &mut *state;
        if newest.is_some_and(|newest| token < newest) {
            println!("{who}: write with token {token} refused, a newer one has written");
            return;
        }
        *balance = amount;
        *newest = Some(token);
        println!("{who}: wrote {amount} with token {token}");
    }

    fn balance(&self) -> i64 {
        self.state().0
    }

    fn state(&self) -> std::sync::MutexGuard<'_, (i64, Option<FencingToken>)> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

//! The purpose of a fencing token: a holder lost its lock without noticing it, and wants to write. The database rejects its
//! transaction, because it has seen a greater token.
//!
//! `cargo run --example fenced_writes` uses an SQLite database in memory. With
//! `DATABASE_URL=postgres://user@host/database` it uses Postgres, where it creates the fence and a table `fenced_account`.
//! With `REDIS_URL=redis://127.0.0.1:6379` the locks are on a server.

use std::env;
use std::error::Error;

use reentry::{FenceSql, Held, Locks, OnLost};
use sqlx::AnyPool;
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use tokio::sync::Notify;

const KEY: &str = "account:7";

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let database = env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite::memory:".to_owned());
    let locks = Locks::connect(url).await?;
    let account = Account::open(&database).await?;
    run(&locks, &account).await
}

/// The database that the lock protects.
pub(crate) struct Account {
    database: AnyPool,
    fence: FenceSql,
}

impl Account {
    /// Creates the fence and the account. A program has both in its migrations.
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        install_default_drivers();
        let fence = if url.starts_with("postgres") {
            FenceSql::Postgres
        } else {
            FenceSql::Sqlite
        };
        // An SQLite database in memory belongs to one connection.
        let options = AnyPoolOptions::new().max_connections(1);
        let database = options.connect(url).await?;
        sqlx::raw_sql(fence.setup()).execute(&database).await?;
        let account = "CREATE TABLE IF NOT EXISTS fenced_account (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);
            INSERT INTO fenced_account VALUES (7, 0) ON CONFLICT (id) DO UPDATE SET balance = 0";
        sqlx::raw_sql(account).execute(&database).await?;
        Ok(Self { database, fence })
    }

    /// Adds to the balance, in a transaction that begins with the fence. Any statements may follow it.
    async fn deposit(&self, held: &Held, amount: i64) -> Result<(), sqlx::Error> {
        let begin = match self.fence {
            FenceSql::Sqlite => "BEGIN IMMEDIATE",
            _ => "BEGIN",
        };
        let mut transaction = self.database.begin_with(begin).await?;
        sqlx::query(self.fence.statement())
            .bind(held.key())
            .bind(held.fencing_token().as_i64())
            .execute(&mut *transaction)
            .await?; // an error drops the transaction, which rolls it back
        sqlx::query("UPDATE fenced_account SET balance = balance + $1 WHERE id = 7")
            .bind(amount)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    /// The balance that was committed last.
    pub(crate) async fn balance(&self) -> Result<i64, sqlx::Error> {
        let query = sqlx::query_scalar("SELECT balance FROM fenced_account WHERE id = 7");
        query.fetch_one(&self.database).await
    }
}

/// Two holders, one after the other. The first one writes after it has lost its lock, and after the second one has
/// written.
pub(crate) async fn run(locks: &Locks, account: &Account) -> Result<(), Failure> {
    let entered = Notify::new();
    let taken_over = Notify::new();

    // It continues although its lock was taken away, like a program that was paused.
    let slow = locks.lock(KEY).on_lost(OnLost::KeepRunning).run(async {
        entered.notify_one();
        taken_over.notified().await;
        write("slow", account, 100).await
    });
    let quick = async {
        entered.notified().await;
        locks.admin().force_release(KEY).await?;
        locks.with_lock(KEY, write("quick", account, 250)).await??;
        taken_over.notify_one();
        Ok::<_, Failure>(())
    };
    let (slow, quick) = tokio::join!(slow, quick);
    quick?;
    slow??;
    println!("the balance is {}", account.balance().await?);
    Ok(())
}

/// Writes under the lock of the caller. A stale token is not an error here.
async fn write(who: &str, account: &Account, amount: i64) -> Result<(), Failure> {
    let held = reentry::held(KEY).ok_or("this call is not inside a lock")?;
    let token = held.fencing_token();
    match account.deposit(&held, amount).await {
        Ok(()) => println!("{who}: added {amount} with token {token}"),
        Err(error) if is_stale(&error) => {
            println!("{who}: rejected with token {token}, because a newer holder has written");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Whether the fence rejected the token. Repeating the transaction with this token is useless.
fn is_stale(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(|error| error.message().contains("stale_fencing_token"))
}

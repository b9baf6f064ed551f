//! The register: a number for each key in a Postgres of the run, which the locks protect too.
//!
//! A worker adds one to a number in a transaction: it reads the number, and writes the next one. So two transactions of
//! a key that overlap lose an update. Each transaction also adds a row to a journal, which no other transaction
//! overwrites. So the number of a key must be the number of its rows.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use reentry::FenceSql;
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use tokio::time::{Instant, sleep};

use crate::support::database::DatabaseServer;
use crate::tally::{Entry, Total};

/// The maximum number of sessions of a worker. The server notices immediately when a worker is killed. So there are
/// fewer sessions than the 100 that Postgres allows.
const SESSIONS: u32 = 8;

/// The time after the end of the workers within which the server has ended their sessions.
const LAST_SESSION: Duration = Duration::from_secs(20);

/// The action of a worker between reading a number and writing the next one. It gives others time to interfere, and a
/// worker that is stopped is often stopped here.
const BETWEEN: Duration = Duration::from_millis(5);

const TABLES: &str = "
    CREATE TABLE register (key TEXT PRIMARY KEY, value BIGINT NOT NULL);
    CREATE TABLE journal (id BIGSERIAL PRIMARY KEY, key TEXT NOT NULL, token BIGINT NOT NULL);
";

/// The number of other sessions of the server.
const OTHERS: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
";

/// For each key the number, the rows of the journal, and the rows whose token is smaller than that of the previous row.
const TOTALS: &str = "
    WITH row AS (
        SELECT key, token < lag(token) OVER (PARTITION BY key ORDER BY id) AS is_stale FROM journal
    )
    SELECT key, value, count(*), count(*) FILTER (WHERE is_stale)
    FROM register JOIN row USING (key) GROUP BY key, value ORDER BY key
";

/// How the transactions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Writes {
    /// With the fence
    Fenced,
    /// Without it, so that the checks must find lost updates
    Plain,
}

/// The address of the register.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The folder of the server's socket.
    folder: PathBuf,
    /// The time after which the server ends a transaction that is idle.
    idle: Duration,
    writes: Writes,
}

/// The server of a run. It ends on drop.
#[derive(Debug)]
pub(crate) struct Register {
    place: Place,
    _server: DatabaseServer,
}

impl Register {
    pub(crate) async fn start(writes: Writes, idle: Duration) -> Result<Register> {
        let server = DatabaseServer::postgres().up().await;
        let place = Place {
            folder: server.place().to_owned(),
            idle,
            writes,
        };
        let pool = place.pool();
        let setup = FenceSql::Postgres.setup();
        sqlx::raw_sql(setup).execute(&pool).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        pool.close().await;
        Ok(Register {
            place,
            _server: server,
        })
    }

    pub(crate) fn place(&self) -> Place {
        self.place.clone()
    }

    /// The content after all workers have ended, and their last transactions too.
    pub(crate) async fn totals(&self) -> Result<Vec<Total>> {
        let mut session = self.place.pool().acquire().await?;
        let limit = Instant::now() + LAST_SESSION;
        while sqlx::query_scalar::<_, i64>(OTHERS)
            .fetch_one(&mut *session)
            .await?
            > 0
        {
            ensure!(Instant::now() < limit, "a session outlasts its worker");
            sleep(Duration::from_millis(20)).await;
        }
        let rows: Vec<(String, i64, i64, i64)> =
            sqlx::query_as(TOTALS).fetch_all(&mut *session).await?;
        let total = |(key, value, rows, stale)| Total {
            key,
            value,
            rows,
            stale,
        };
        Ok(rows.into_iter().map(total).collect())
    }
}

impl Place {
    /// The access of a worker to the register. It connects when it is used.
    pub(crate) fn sessions(&self) -> Sessions {
        Sessions {
            pool: self.pool(),
            writes: self.writes,
        }
    }

    fn pool(&self) -> PgPool {
        let limit = format!("{}ms", self.idle.as_millis());
        let options = PgConnectOptions::new_without_pgpass()
            .socket(&self.folder)
            .username("postgres")
            .database("postgres")
            .options([("idle_in_transaction_session_timeout", limit)]);
        let pool = PgPoolOptions::new().max_connections(SESSIONS);
        pool.connect_lazy_with(options)
    }
}

/// The sessions of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pool: PgPool,
    writes: Writes,
}

impl Sessions {
    /// Adds one to the number of this key. `commits` is called before the commit is sent. From then on the transaction
    /// may be committed, whatever the response is. Before that, dropping this rolls it back.
    pub(crate) async fn add(&self, key: &str, token: i64, commits: impl FnOnce()) -> Entry {
        match self.transaction(key, token, commits).await {
            Ok(()) => Entry::Committed,
            Err(error) if is_stale(&error) => Entry::Refused,
            Err(error) => Entry::Failed(error.to_string()),
        }
    }

    async fn transaction(
        &self,
        key: &str,
        token: i64,
        commits: impl FnOnce(),
    ) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        if self.writes == Writes::Fenced {
            let fence = sqlx::query(FenceSql::Postgres.statement());
            fence
                .bind(key)
                .bind(token)
                .execute(&mut *transaction)
                .await?;
        }
        let read = sqlx::query_scalar("SELECT value FROM register WHERE key = $1").bind(key);
        let value: Option<i64> = read.fetch_optional(&mut *transaction).await?;
        sleep(BETWEEN).await;
        let write = "INSERT INTO register VALUES ($1, $2)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        sqlx::query(write)
            .bind(key)
            .bind(value.unwrap_or(0) + 1)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO journal (key, token) VALUES ($1, $2)")
            .bind(key)
            .bind(token)
            .execute(&mut *transaction)
            .await?;
        commits();
        transaction.commit().await
    }
}

fn is_stale(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(|error| error.message().contains("stale_fencing_token"))
}

//! The database of a test: a separate schema, or file.

use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::session::{Database, Session};
use crate::support::{DEADLINE, DatabaseServer, eventually};

static POSTGRES: OnceCell<DatabaseServer> = OnceCell::const_new();
static MARIADB: OnceCell<DatabaseServer> = OnceCell::const_new();

/// The number of the grounds so far.
static GROUNDS: AtomicU32 = AtomicU32::new(0);

/// Runs each `async fn case(ground: Ground)` as a separate test on each database.
macro_rules! on_each_database {
    ($($case:ident),+ $(,)?) => {
        on_each_database!(@ postgres Postgres $($case)+);
        on_each_database!(@ mariadb MariaDb $($case)+);
        on_each_database!(@ sqlite Sqlite $($case)+);
    };
    (@ $module:ident $database:ident $($case:ident)+) => {
        mod $module {
            use crate::fence::{ground::Ground, session::Database};

            $(#[tokio::test]
            async fn $case() {
                super::$case(Ground::new(Database::$database).await).await;
            })+
        }
    };
}
pub(super) use on_each_database;

/// The tables of one test: the fence, and an account whose balance is 0.
#[derive(Debug)]
pub(super) struct Ground {
    database: Database,
    place: String,
    name: String,
    /// The folder of the file.
    _folder: Option<TempDir>,
}

impl Ground {
    pub(super) async fn new(database: Database) -> Self {
        let name = format!("ground{}", GROUNDS.fetch_add(1, Ordering::Relaxed));
        let (place, folder) = match database {
            Database::Postgres => (started(&POSTGRES, DatabaseServer::postgres).await, None),
            Database::MariaDb => (started(&MARIADB, DatabaseServer::mariadb).await, None),
            Database::Sqlite => {
                let folder = TempDir::with_prefix("reentry-").expect("a temporary folder");
                (folder.path().display().to_string(), Some(folder))
            }
        };
        if database != Database::Sqlite {
            let mut first = Session::open(database, &place, first_schema(database));
            first.run(&format!("CREATE SCHEMA {name}")).await.done();
        }
        let ground = Self {
            database,
            place,
            name,
            _folder: folder,
        };
        let mut session = ground.session();
        session.run(database.sql().setup()).await.done();
        session.run(ACCOUNT).await.done();
        ground
    }

    /// The place and the name with which another process opens a session.
    pub(super) fn address(&self) -> (&str, &str) {
        (&self.place, &self.name)
    }

    pub(super) fn session(&self) -> Session {
        Session::open(self.database, &self.place, &self.name)
    }

    pub(super) fn sessions<const N: usize>(&self) -> [Session; N] {
        std::array::from_fn(|_| self.session())
    }

    /// Waits until the database shows that this session waits for a lock. SQLite does not show that.
    pub(super) async fn until_waiting(&self, id: &str) {
        if self.database == Database::Sqlite {
            return;
        }
        let mut observer = self.session();
        let waits = async || waits(&mut observer, id).await;
        eventually(DEADLINE, "the session waits for a lock", waits).await;
    }

    /// The identity of a session for [`until_waiting`](Self::until_waiting).
    pub(super) async fn id(&self, session: &mut Session) -> String {
        let query = match self.database {
            Database::Postgres => "SELECT pg_backend_pid()",
            Database::MariaDb => "SELECT CONNECTION_ID()",
            Database::Sqlite => return String::new(),
        };
        session.run(query).await.done().concat()
    }
}

/// Returns whether another session waits for a lock.
async fn waits(observer: &mut Session, id: &str) -> bool {
    let query = match observer.database {
        Database::Postgres => {
            &format!("SELECT 1 FROM pg_stat_activity WHERE pid = {id} AND wait_event_type = 'Lock'")
        }
        // The table `innodb_trx` is not updated for queries more often than every 100 ms.
        _ => "SHOW ENGINE INNODB STATUS",
    };
    let rows = observer.run(query).await.done().concat();
    if observer.database == Database::Postgres {
        return !rows.is_empty();
    }
    let session = format!("thread id {id},");
    let mut transactions = rows.split("---TRANSACTION");
    transactions.any(|it| it.contains("LOCK WAIT") && it.contains(&session))
}

const ACCOUNT: &str =
    "CREATE TABLE account (balance BIGINT NOT NULL); INSERT INTO account VALUES (0)";

/// A schema that exists on each server.
fn first_schema(database: Database) -> &'static str {
    match database {
        Database::Postgres => "public",
        Database::MariaDb | Database::Sqlite => "information_schema",
    }
}

/// The folder of the socket of a running server. The first test starts it.
async fn started(cell: &OnceCell<DatabaseServer>, start: fn() -> DatabaseServer) -> String {
    let server = cell.get_or_init(|| start().up()).await;
    server.place().display().to_string()
}

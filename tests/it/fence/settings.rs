//! Whatever a session has set, and however it sends its values, a key is one row, and a stale token is an error.

use super::ground::{Ground, on_each_database};
use super::session::{Database, Session};

const KEY: &str = "straße:42";

on_each_database!(
    no_setting_lets_a_stale_holder_pass,
    no_setting_makes_a_key_or_a_token_of_null,
);

impl Database {
    /// The settings with which the database checks as little as it can.
    fn unchecked(self) -> &'static str {
        match self {
            Self::Postgres => "SET session_replication_role = replica",
            Self::MariaDb => {
                "SET check_constraint_checks = 0, unique_checks = 0, foreign_key_checks = 0, sql_mode = ''"
            }
            Self::Sqlite => "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF",
        }
    }
}

/// The attempts leave the token that was stored, so the next one is rejected too.
async fn no_setting_lets_a_stale_holder_pass(ground: Ground) {
    let [mut new, mut old] = ground.sessions();
    new.enter(KEY, 5).await.done();
    new.commit().await;
    old.run(old.database.unchecked()).await.done();
    for token in [4, 4, 0] {
        assert!(old.enter(KEY, token).await.is_refused(), "{token}");
        old.commit().await;
    }
    assert!(new.enter(KEY, 4).await.is_refused());
    new.roll_back().await;
    new.enter(KEY, 5).await.done();
}

async fn no_setting_makes_a_key_or_a_token_of_null(ground: Ground) {
    let mut session = ground.session();
    let database = session.database;
    session.run(database.unchecked()).await.done();
    for (key, token) in [("NULL", "5"), ("'new'", "NULL"), ("'known'", "NULL")] {
        session.enter("known", 5).await.done();
        session.run(&database.fence_of(key, token)).await.failed();
        session.roll_back().await;
    }
}

/// A session that sends the key as `key`, and a stale token.
async fn is_refused(session: &mut Session, key: &str) -> bool {
    let database = session.database;
    let fence = database.fence_of(key, "4");
    let answer = session.run(&format!("{}; {fence}", database.begin())).await;
    session.roll_back().await;
    answer.is_refused()
}

/// The key in the character set of the connection, and in bytes.
#[tokio::test]
async fn mariadb_has_one_row_for_a_key_of_any_character_set() {
    let ground = Ground::new(Database::MariaDb).await;
    let mut session = ground.session();
    session.run("SET NAMES utf8mb4").await.done();
    session.enter(KEY, 5).await.done();
    session.commit().await;
    let key = format!("'{KEY}'");
    for connection in ["utf8mb4", "utf8", "latin1", "cp850", "utf16", "utf32"] {
        let set = format!("SET character_set_connection = {connection}");
        session.run(&set).await.done();
        assert!(is_refused(&mut session, &key).await, "{connection}");
    }
    let bytes: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(is_refused(&mut session, &format!("x'{bytes}'")).await);
    session.run("SET NAMES latin1").await.done();
    let key = "CONCAT('stra', _latin1 x'df', 'e:42')";
    assert!(is_refused(&mut session, key).await);
}

/// In a column without a type check, bytes are another key than text, and text is greater than each number.
#[tokio::test]
async fn sqlite_takes_a_key_as_text_and_a_token_as_an_integer() {
    let ground = Ground::new(Database::Sqlite).await;
    let mut session = ground.session();
    session.enter("a", 5).await.done();
    session.commit().await;
    for (key, token) in [
        ("x'61'", "4"),
        ("x'61'", "6"),
        ("'a'", "'six'"),
        ("'a'", "x'36'"),
        ("'a'", "6.5"),
        ("'a'", "9e99"),
        ("'a'", "'4'"),
    ] {
        let fence = session.database.fence_of(key, token);
        session.run(&fence).await.failed();
    }
    assert!(session.enter("a", 4).await.is_refused());
    session.roll_back().await;
    session.enter("a", 5).await.done();
}

/// A program may have set another one, and may even have a table of this name in it.
#[tokio::test]
async fn postgres_has_one_table_whatever_the_search_path_is() {
    let ground = Ground::new(Database::Postgres).await;
    let other = Ground::new(Database::Postgres).await;
    let mut session = ground.session();
    session.enter(KEY, 5).await.done();
    session.commit().await;
    let (_, schema) = ground.address();
    let (_, another) = other.address();
    let table = "CREATE TEMPORARY TABLE reentry_fence (lock_key text PRIMARY KEY, token bigint)";
    for (path, table) in [(another, ""), ("pg_catalog", ""), (schema, table)] {
        session
            .run(&format!("SET search_path = {path}; {table}"))
            .await
            .done();
        let fence = session.database.fence(KEY, 4);
        let fence = fence.replace("reentry_fence", &format!("{schema}.reentry_fence"));
        assert!(session.run(&fence).await.is_refused(), "{path}");
    }
}

//! The statements in the comments of the SQL about isolation, on the database concerned.

use super::ground::Ground;
use super::session::{Database, Session};

const KEY: &str = "order:42";

/// Both holders are in transactions that begin with this statement. The later one waits at its fence for the earlier
/// one, which adds 1 to the balance. Returns the later session, whose response is not read yet.
async fn overlap(ground: &Ground, begin: &str, first: &str) -> Session {
    let [mut old, mut new] = ground.sessions();
    let id = ground.id(&mut new).await;
    let fence = |token| old.database.fence(KEY, token);
    let (old_fence, new_fence) = (fence(5), fence(6));
    old.run(&format!("{begin}; {old_fence}")).await.done();
    old.add(1).await;
    new.run(&format!("{begin}{first}")).await.done();
    new.send(&new_fence);
    ground.until_waiting(&id).await;
    old.commit().await;
    new
}

#[tokio::test]
async fn mariadb_reads_behind_the_fence_what_was_committed_before_it() {
    for level in [
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ] {
        let ground = Ground::new(Database::MariaDb).await;
        let begin = format!("SET TRANSACTION ISOLATION LEVEL {level}; START TRANSACTION");
        let mut new = overlap(&ground, &begin, "").await;
        new.answer().await.done();
        assert_eq!(new.balance().await, 1, "{level}");
    }
}

#[tokio::test]
async fn postgres_reads_behind_the_fence_what_was_committed_before_it() {
    for (begin, first) in [
        ("BEGIN ISOLATION LEVEL READ COMMITTED", ""),
        ("BEGIN", "; SELECT balance FROM account"),
    ] {
        let ground = Ground::new(Database::Postgres).await;
        let mut new = overlap(&ground, begin, first).await;
        new.answer().await.done();
        assert_eq!(new.balance().await, 1, "{begin}{first}");
    }
}

#[tokio::test]
async fn postgres_reports_a_snapshot_that_is_older_than_the_fence() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let ground = Ground::new(Database::Postgres).await;
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let mut new = overlap(&ground, &begin, "").await;
        let answer = new.answer().await;
        assert!(!answer.is_refused(), "{level}");
        let error = answer.failed();
        assert!(error.starts_with("ERROR:  40001: "), "{level}: {error}");
        new.roll_back().await;
        // If it is repeated, it continues.
        new.run(&begin).await.done();
        new.run(&new.database.fence(KEY, 6)).await.done();
        assert_eq!(new.balance().await, 1, "{level}");
        new.commit().await;
    }
}

#[tokio::test]
async fn postgres_ends_a_refused_transaction_by_itself() {
    let ground = Ground::new(Database::Postgres).await;
    let mut session = ground.session();
    session.enter(KEY, 2).await.done();
    session.commit().await;
    let error = session.enter(KEY, 1).await.failed();
    assert!(
        error.starts_with("ERROR:  40001: stale_fencing_token"),
        "{error}"
    );
    let update = "UPDATE account SET balance = 1";
    let error = session.run(update).await.failed();
    assert!(error.starts_with("ERROR:  25P02: "), "{error}");
    session.commit().await;
    assert_eq!(session.balance().await, 0);
}

/// The statement for a user that may not create functions is in the comments.
#[tokio::test]
async fn postgres_needs_no_function() {
    let ground = Ground::new(Database::Postgres).await;
    let mut session = ground.session();
    let drop = "DROP FUNCTION reentry_fence(text, bigint)";
    session.run(drop).await.done();
    let setup = session.database.sql().setup();
    let (_, comment) = setup.split_once("--     INSERT").unwrap();
    let (statement, _) = comment.split_once(";\n").unwrap();
    let statement = format!("INSERT{}", statement.replace("\n--", "\n"));
    let fence = |token: &str| statement.replace("$1", "'order:42'").replace("$2", token);
    for token in ["5", "5", "6"] {
        session.run(&fence(token)).await.done();
    }
    let answer = session.run(&fence("5")).await;
    assert!(answer.is_refused());
    assert!(answer.failed().starts_with("ERROR:  23514: "));
    session.run(&fence("6")).await.done();
}

//! The example `fenced_writes`: only the write of the second holder is in the database.

use crate::support::DatabaseServer;
use reentry::Locks;

#[path = "../../../examples/services/fenced_writes.rs"]
#[allow(dead_code, reason = "its `main` is not run here")]
mod example;

async fn run(database: &str) -> i64 {
    let account = example::Account::open(database).await.unwrap();
    example::run(&Locks::in_memory(), &account).await.unwrap();
    account.balance().await.unwrap()
}

#[tokio::test]
async fn sqlite_in_memory_has_the_write_of_the_newer_holder_alone() {
    assert_eq!(run("sqlite::memory:").await, 250);
}

#[tokio::test]
async fn postgres_has_the_write_of_the_newer_holder_alone() {
    let server = DatabaseServer::postgres().up().await;
    let folder = server.place().display();
    let url = format!("postgres://postgres@localhost/postgres?host={folder}");
    assert_eq!(run(&url).await, 250);
}

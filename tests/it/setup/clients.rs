//! The address of the server is that of the program's own client.

use redis::Client;
use reentry::{LockError, Locks, LocksBuilder, Servers};

use crate::support::{DEADLINE, RedisServer, eventually, within};

fn builder(client: Client) -> LocksBuilder {
    let builder = Locks::builder().client(client).connect_timeout(DEADLINE);
    builder.response_timeout(DEADLINE)
}

#[tokio::test]
async fn waiters_of_a_client_are_told_when_it_is_their_turn() {
    let server = RedisServer::start().await;
    let client = Client::open(format!("{}/3", server.url())).unwrap();
    let build = async || builder(client.clone()).build().await.unwrap();
    let (holder, waiter) = (build().await, build().await);
    let guard = holder.lock("order:42").await.unwrap();
    let keyspace = server.ask("INFO keyspace").await;
    assert!(
        keyspace.contains("db3:") && !keyspace.contains("db0:"),
        "{keyspace}"
    );
    let waiting = tokio::spawn(async move { waiter.lock("order:42").await.map(drop) });
    server.until_listening(2).await;
    let told = async || server.subscriptions().await.len() == 1;
    eventually(DEADLINE, "the waiter has an inbox", told).await;
    guard.release().await.unwrap();
    within(DEADLINE, "the waiter enters", waiting)
        .await
        .unwrap()
        .unwrap();
}

#[test]
fn a_client_excludes_other_addresses() {
    let client = || Client::open("redis://localhost:1").unwrap();
    let servers = Servers::cluster(["localhost:1"]);
    for builder in [
        builder(client()).url("redis://localhost:1"),
        builder(client()).url("memory:"),
        builder(client()).servers(servers),
    ] {
        let built = builder.build_lazy();
        assert!(matches!(built, Err(LockError::Config { .. })), "{built:?}");
    }
}

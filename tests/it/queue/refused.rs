//! P9 where the store refuses a request while the holder in the same process leaves: the next caller that
//! comes finds a free lock, and not a queue that waits for another.

use std::time::Duration;

use crate::support::rig::{EVALSHA, KEY};
use crate::support::{
    Action, DEADLINE, Direction::ToServer, Proxy, RedisServer, processes, unhurried, waiters,
    within,
};
use reentry::LockError;

#[tokio::test]
async fn a_request_refused_while_the_holder_leaves_holds_up_no_waiter() {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let [locks] = processes(&unhurried(&server).url(proxy.url())).await;
    locks.with_lock(KEY, async {}).await.unwrap();
    let guard = locks.lock(KEY).await.unwrap();
    // Its TTL makes it ask soon, although the holder is in its own process.
    proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let request = locks.lock(KEY).ttl(Duration::from_millis(600));
    let waiter = tokio::spawn(request.acquire());
    proxy.wait_until_held(ToServer, EVALSHA).await;
    // The release waits for the answer to the request, and is held in its turn.
    let release = tokio::spawn(guard.release());
    server.ask("ACL SETUSER default -zadd").await;
    proxy.on_next(ToServer, EVALSHA, Action::Hold);
    let hits = proxy.hits();
    proxy.release(ToServer);
    let refused = within(DEADLINE, "the refusal", waiter).await.unwrap();
    assert!(
        matches!(refused, Err(LockError::Store { .. })),
        "{refused:?}"
    );
    proxy.wait_for_hits(hits + 1).await;
    proxy.wait_until_held(ToServer, EVALSHA).await;
    server.ask("ACL SETUSER default +zadd").await;
    proxy.release(ToServer);
    within(DEADLINE, "the release", release)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(waiters(&locks, KEY).await, None, "it is free");
    // Far sooner than the heartbeat.
    let next = within(DEADLINE / 2, "a free lock", locks.lock(KEY).acquire()).await;
    next.unwrap().release().await.unwrap();
}

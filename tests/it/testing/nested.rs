//! P3: nested calls while the server is unavailable. None of them waits, and the depth in the store is updated when the
//! server is available again.

use std::cell::Cell;
use std::pin::Pin;
use std::time::Duration;

use crate::support::{DEADLINE, depths, eventually};
use reentry::testing::Server;
use reentry::{LockError, Locks, OnLost, held};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const KEYS: [&str; 2] = ["order:42", "stock:7"];

/// Re-enters the keys this number of times, one call inside the other, and runs `innermost` in the last one.
fn descend<'a>(
    locks: &'a Locks,
    levels: u32,
    innermost: Pin<Box<dyn Future<Output = ()> + 'a>>,
) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + 'a>> {
    Box::pin(async move {
        match levels {
            1 => locks.lock_all(KEYS).run(innermost).await,
            _ => {
                let inner = descend(locks, levels - 1, innermost);
                locks.with_lock(KEYS[0], inner).await?
            }
        }
    })
}

async fn depths_are(locks: &Locks, wanted: [u64; 2]) {
    let are = async || {
        let [one, other] = KEYS.map(|key| depths(locks, key));
        (one.await, other.await) == (vec![wanted[0]], vec![wanted[1]])
    };
    eventually(DEADLINE, "the store has the depths", are).await;
}

/// The server becomes unavailable inside the outer body, until the innermost one of ten nested calls has run for a
/// while.
async fn ten_calls_while(away: impl Fn(&Server), back: impl Fn(&Server)) {
    let server = Server::new();
    let locks = server.locks();
    let body = async {
        away(&server);
        let begun = Instant::now();
        let left_from = Cell::new(begun);
        let innermost = async {
            assert_eq!(begun.elapsed(), Duration::ZERO);
            sleep(5 * SECOND).await;
            back(&server);
            depths_are(&locks, [11, 2]).await;
            away(&server);
            left_from.set(Instant::now());
        };
        descend(&locks, 10, Box::pin(innermost)).await.unwrap();
        assert_eq!(left_from.get().elapsed(), Duration::ZERO);
        assert_eq!(KEYS.map(|key| held(key).unwrap().depth()), [1, 1]);
        back(&server);
        depths_are(&locks, [1, 1]).await;
    };
    locks.lock_all(KEYS).run(body).await.unwrap();
    assert!(locks.admin().inspect(KEYS[0]).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn ten_calls_inside_each_other_go_on_while_the_server_is_down() {
    ten_calls_while(Server::stop, Server::start).await;
    // It is silent.
    ten_calls_while(Server::pause, Server::resume).await;
}

#[tokio::test(start_paused = true)]
async fn a_longer_ttl_of_a_nested_call_is_sent_after_an_outage() {
    let server = Server::new();
    let locks = server.locks();
    let body = async {
        server.stop();
        let longer = locks.lock(KEYS[0]).ttl(90 * SECOND);
        let nested = longer.run(async {
            let before = held(KEYS[0]).unwrap().remaining();
            assert!(before < 30 * SECOND, "the store knows nothing: {before:?}");
            server.start();
            let is_longer = async || held(KEYS[0]).unwrap().remaining() > 80 * SECOND;
            eventually(SECOND, "a longer lease", is_longer).await;
        });
        nested.await.unwrap();
    };
    locks.with_lock(KEYS[0], body).await.unwrap();
}

/// P5, P6: the entry does not hide the loss.
#[tokio::test(start_paused = true)]
async fn a_nested_call_after_the_end_of_the_lease_is_lost() {
    let server = Server::new();
    let locks = server.locks();
    let outer = locks.lock(KEYS[0]).on_lost(OnLost::KeepRunning);
    let body = async {
        server.stop();
        sleep(30 * SECOND).await;
        let nested = locks.with_lock(KEYS[0], async {}).await;
        assert!(nested.unwrap_err().is_lost());
    };
    outer.run(body).await.unwrap();
}

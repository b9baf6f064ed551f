//! The futures themselves: `Send` if the body is, small however deep they nest, lazy, and with a static lifetime.

use std::rc::Rc;

use crate::support::in_memory;
use reentry::{LockError, LockGuard, LockRequest, Locks, held};

in_memory!(
    nothing_happens_before_the_first_poll,
    a_body_need_not_be_send,
);

fn send<T: Send>(value: T) -> T {
    value
}

fn send_and_sync<T: Send + Sync>() {}

fn lives_for_ever<T: 'static>(value: T) -> T {
    value
}

#[tokio::test]
async fn futures_are_send_where_their_bodies_are() {
    send_and_sync::<Locks>();
    send_and_sync::<LockRequest>();
    send_and_sync::<LockGuard>();
    send_and_sync::<LockError>();
    send_and_sync::<reentry::Held>();

    let locks = Locks::in_memory();
    send(locks.with_lock("key", async {})).await.unwrap();
    send(locks.try_with_lock("key", async { Ok::<_, LockError>(()) }))
        .await
        .unwrap();
    send(locks.admin().inspect("key")).await.unwrap();
    send(locks.admin().force_release("key")).await.unwrap();
    let guard = send(locks.lock("key").acquire()).await.unwrap();
    drop(send(guard.held().lost()));
    send(guard.scope(async {})).await.unwrap();
    send(guard.release()).await.unwrap();
    assert!(
        send(locks.lock("key").try_acquire())
            .await
            .unwrap()
            .is_some()
    );
    send(Locks::connect("memory:")).await.unwrap();
}

/// It can be spawned although everything from which it was made is gone.
#[tokio::test]
async fn a_future_is_static() {
    let future = {
        let locks = Locks::in_memory();
        let key = String::from("key");
        lives_for_ever(locks.with_lock(&key, async { held("key").unwrap().depth() }))
    };
    assert_eq!(tokio::spawn(future).await.unwrap().unwrap(), 1);
}

/// This is how users write it: each level is an `async fn` that runs an `async` block under the lock.
#[tokio::test]
async fn the_size_stays_small_over_five_async_fns() {
    macro_rules! levels {
        ($name:ident) => {
            async fn $name(locks: &Locks) -> u32 {
                locks.with_lock("key", async { held("key").unwrap().depth() }).await.unwrap()
            }
        };
        ($name:ident $next:ident $($names:ident)*) => {
            async fn $name(locks: &Locks) -> u32 {
                locks.with_lock("key", async { $next(locks).await }).await.unwrap()
            }
            levels!($next $($names)*);
        };
    }
    levels!(first second third fourth fifth);
    let locks = Locks::in_memory();
    let future = first(&locks);
    let size = size_of_val(&future);
    assert!(size < 16 * 1024, "{size} bytes");
    assert_eq!(future.await, 5);
}

async fn nothing_happens_before_the_first_poll(locks: Locks) {
    let unpolled = locks.with_lock("key", async { unreachable!("entered") });
    let acquire = locks.lock("key").acquire();
    let invalid = locks.with_lock("", async {});
    assert!(locks.admin().inspect("key").await.unwrap().is_none());
    let guard = locks.lock("key").no_wait().await.unwrap();
    drop((unpolled, acquire));
    guard.release().await.unwrap();
    assert!(matches!(invalid.await, Err(LockError::Misuse { .. })));
}

async fn a_body_need_not_be_send(locks: Locks) {
    let body = async {
        let local = Rc::new(1);
        tokio::task::yield_now().await;
        let nested = locks.with_lock("key", async { Rc::clone(&local) });
        nested.await.unwrap()
    };
    assert_eq!(*locks.with_lock("key", body).await.unwrap(), 1);
}

//! P6: a loss that is noticed while the body itself is polled ends it from the outermost level on. The code between two
//! levels makes no further step.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join_all, pending};
use reentry::testing::Server;
use reentry::{FutureExt as _, LockError, Locks, OnLost, held};
use tokio::runtime::{Builder, Handle};
use tokio::task::block_in_place;
use tokio::time::advance;

const KEY: &str = "order:42";
const OTHER: &str = "stock:7";

/// The way in which the loss is noticed.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// When an inner body has ended, which is too late.
    AfterABody,
    /// By the depth of a nested entry, and then by another entry.
    ByAnEntry,
    /// When the body in the scope of a nested guard has ended.
    AfterAScope,
    /// By work that has left its task, and is polled here.
    ByAMember,
    /// By a body under another lock, which is lost too.
    UnderAnother,
    /// By one of many futures.
    AmongMany,
}

impl Found {
    const ALL: [Self; 6] = [
        Self::AfterABody,
        Self::ByAnEntry,
        Self::AfterAScope,
        Self::ByAMember,
        Self::UnderAnother,
        Self::AmongMany,
    ];

    /// Runs inside the lock.
    async fn find(self, server: &Server, locks: &Locks) -> Result<(), LockError> {
        match self {
            Self::AfterABody => locks.with_lock(KEY, async { pass() }).await,
            Self::ByAnEntry => {
                server.lose_data();
                let lost = async {
                    let _ = held(KEY).unwrap().lost().await;
                };
                locks.with_lock(KEY, lost).await?;
                locks.with_lock(KEY, async {}).await
            }
            Self::AfterAScope => {
                let guard = locks.lock(KEY).await?;
                guard.scope(async { pass() }).await
            }
            Self::ByAMember => async { pass() }.in_current_call().await,
            Self::UnderAnother => locks.with_lock(OTHER, async { pass() }).await,
            Self::AmongMany => {
                let entries = (0..40).map(async |number| match number {
                    0 => locks.with_lock(KEY, async { pass() }).await,
                    _ => pending().await,
                });
                let entries = join_all(entries.map(Box::pin));
                futures_util::future::select(Box::pin(entries), Box::pin(pending::<()>())).await;
                Ok(())
            }
        }
    }
}

/// The leases expire, in this very poll.
fn pass() {
    let _ = advance(Duration::from_secs(60)).now_or_never();
}

#[tokio::test(start_paused = true)]
async fn code_between_two_levels_makes_no_step_after_a_loss() {
    for found in Found::ALL {
        let server = Server::new();
        let locks = server.locks();
        let went_on = Cell::new(false);
        let body = async {
            let _ = found.find(&server, &locks).await;
            went_on.set(true);
            pending::<()>().await;
        };
        let lost = locks.with_lock(KEY, body).await.unwrap_err();
        assert!(
            lost.is_lost() && lost.key() == Some(KEY),
            "{found:?}: {lost}"
        );
        assert!(!went_on.get(), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn code_between_two_levels_gets_the_error_with_keep_running() {
    for found in [Found::AfterABody, Found::ByAnEntry, Found::ByAMember] {
        let server = Server::new();
        let locks = server.locks();
        let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
        let body = async { found.find(&server, &locks).await };
        let told = request.run(body).await.unwrap();
        let is_told = match found {
            Found::ByAnEntry => told.unwrap_err().is_lost(),
            _ => told.is_ok(),
        };
        assert!(is_told, "{found:?}");
    }
}

/// The level around it is not polled before this one has a result.
#[test]
fn a_nested_call_that_blocks_its_thread_gets_the_loss() {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let (told, ended) = runtime.block_on(async {
        let server = Server::new();
        let locks = server.locks();
        let nested = locks.clone();
        let (tell, told) = mpsc::channel();
        let body = async move {
            server.lose_data();
            let loses = nested.with_lock(KEY, pending::<()>());
            let blocked = block_in_place(|| Handle::current().block_on(loses));
            tell.send(blocked).unwrap();
        };
        let ended = tokio::spawn(locks.with_lock(KEY, body)).await.unwrap();
        (told.recv().unwrap(), ended)
    });
    assert!(told.unwrap_err().is_lost() && ended.unwrap_err().is_lost());
}

//! The attempts to ask a server for its replicas if it cannot be asked.

#![allow(clippy::unwrap_used, reason = "a test ends where its ground gives way")]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::join_all;

use super::*;
use crate::base::error::{FailureClass, StoreFuture};

const SECOND: Duration = Duration::from_secs(1);

/// A server that accepts no further connection. It counts the attempts.
#[derive(Default)]
struct Full(AtomicU32);

impl Source for Full {
    fn endpoint(&self) -> Arc<str> {
        "here".into()
    }

    fn open(self: Arc<Self>, _: Timeouts) -> StoreFuture<RawConnection> {
        self.0.fetch_add(1, Relaxed);
        let endpoint = self.endpoint();
        let error = StoreError::new(
            "connect",
            &endpoint,
            FailureClass::AccessDenied,
            "it is full",
        );
        Box::pin(async { Err(error) })
    }
}

fn confirmer() -> (Arc<Full>, Arc<Confirmer>) {
    let source = Arc::<Full>::default();
    let timeouts = Timeouts {
        connect: SECOND,
        response: SECOND,
    };
    let replication_id = "abc".to_owned();
    let confirmer = Confirmer::new(Arc::clone(&source) as _, timeouts, replication_id);
    (source, confirmer)
}

#[tokio::test(start_paused = true)]
async fn a_full_server_gets_few_connections_however_many_callers() {
    let (source, confirmer) = confirmer();
    let begun = Instant::now();
    let asking = (0..100).map(async |_| {
        while begun.elapsed() < 10 * SECOND {
            let told = confirmer.confirm("{order:42}", 1, SECOND).await;
            assert!(told.is_err());
        }
    });
    join_all(asking).await;
    let attempts = source.0.load(Relaxed);
    assert!((16..=5 + 35).contains(&attempts), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_time_for_an_attempt_gets_the_last_error() {
    let (source, confirmer) = confirmer();
    for _ in 0..3 {
        let told = confirmer.confirm("{order:42}", 1, SECOND / 1_000).await;
        assert!(told.is_err());
    }
    assert_eq!(source.0.load(Relaxed), 1);
}

#[test]
fn a_primary_has_an_id_and_a_replica_none() {
    let info = "# Replication\r\nrole:master\r\nmaster_replid:abc\r\nmaster_replid2:000\r\n";
    assert_eq!(replication_id(info), Some("abc"));
    assert_eq!(replication_id(&info.replace("master\r", "slave\r")), None);
    assert_eq!(replication_id(""), None);
}

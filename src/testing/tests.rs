//! The server as a process sees it below its locks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use tokio::runtime::Builder;

use super::network::Network;
use crate::base::key::LockKey;
use crate::redis::Timeouts;
use crate::store::{Inspect, PendingReply, Store};
use crate::support::DEADLINE;

fn key() -> LockKey {
    LockKey::new("", "order:42").expect("a key")
}

fn inspect(store: &Arc<Store>) -> PendingReply<Inspect> {
    store.ask(Inspect::of(&key()))
}

/// A request that arrives while the server resumes is executed, before or after the others.
#[test]
fn no_request_is_forgotten_while_the_server_stands_still_and_goes_on() {
    let server = Network::default();
    let is_over = AtomicBool::new(false);
    let patient = Timeouts {
        connect: DEADLINE,
        response: DEADLINE,
    };
    // Connected before the server stands still for the first time.
    let stores = [server.connect(patient), server.connect(patient)];
    let ask = |store: Arc<Store>| {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            for _ in 0..2_000 {
                inspect(&store).await.expect("an answer");
            }
        });
    };
    thread::scope(|scope| {
        let asking = stores.map(|store| scope.spawn(move || ask(store)));
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                server.host.pause();
                thread::yield_now();
                server.host.resume();
            }
        });
        let ended = asking.map(thread::ScopedJoinHandle::join);
        is_over.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
}

//! Leading. Of all candidates one leads at a time, and another one takes over when it ends, in whatever way.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Section, until_waiting};
use reentry::testing::Server;
use reentry::{Held, LockError, Locks};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "reports";
const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// The candidate that has begun to lead, and its token.
type Terms = UnboundedReceiver<(usize, u64)>;

/// Waits until it leads, and leads for ever.
fn candidate(
    locks: &Locks,
    name: usize,
    terms: &UnboundedSender<(usize, u64)>,
) -> JoinHandle<Result<(), LockError>> {
    let (request, terms) = (locks.lock(KEY), terms.clone());
    tokio::spawn(request.lead(move |term| {
        let _ = terms.send((name, term.fencing_token().into()));
        pending()
    }))
}

/// Three candidates, one after the other. The first one leads.
async fn three(server: &Server) -> (Vec<(Locks, JoinHandle<Result<(), LockError>>)>, Terms) {
    let (terms, mut begun) = unbounded_channel();
    let mut replicas = Vec::new();
    for name in 0..3 {
        let locks = server.locks();
        let leading = candidate(&locks, name, &terms);
        if name == 0 {
            assert_eq!(begun.recv().await.unwrap().0, 0);
        } else {
            until_waiting(&locks, KEY, 1).await;
        }
        replicas.push((locks, leading));
    }
    (replicas, begun)
}

#[tokio::test(start_paused = true)]
async fn another_one_leads_when_the_lease_of_a_dead_leader_has_ended() {
    let server = Server::new();
    let (mut replicas, mut begun) = three(&server).await;
    for next in [1, 2] {
        let (locks, leading) = replicas.remove(0);
        let killed = Instant::now();
        server.partition(&locks);
        leading.abort();
        assert_eq!(begun.recv().await.unwrap().0, next);
        assert!(killed.elapsed() <= TTL + SECOND, "{:?}", killed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_leader_resigns_and_the_next_one_leads() {
    let server = Server::new();
    let (mut replicas, mut begun) = three(&server).await;
    let mut last = 0;
    for next in [1, 2] {
        let (locks, leading) = replicas.remove(0);
        let closed = Instant::now();
        let report = locks.close(Duration::MAX).await;
        assert!(report.is_clean(), "{report}");
        let ended = leading.await.unwrap();
        assert!(ended.unwrap_err().is_closed());
        let (name, token) = begun.recv().await.unwrap();
        assert_eq!((name, closed.elapsed()), (next, Duration::ZERO));
        assert!(token > last);
        last = token;
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_returns_resigns_and_its_output_is_returned() {
    let server = Server::new();
    let (one, other) = (server.locks(), server.locks());
    let section = Section::default();
    let start = Instant::now();
    let lead = async |locks: &Locks| {
        let work = |_| async {
            section.visit().await;
            6 * 7
        };
        locks.lock(KEY).lead(work).await
    };
    let (first, second) = tokio::join!(lead(&one), lead(&other));
    assert_eq!((first.unwrap(), second.unwrap()), (42, 42));
    assert_eq!(section.visits(), 2);
    assert!(start.elapsed() < SECOND);
    assert!(one.admin().inspect(KEY).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lock_is_elected_again() {
    let locks = Locks::in_memory();
    let (mut last, mut terms) = (0, 0);
    let work = |term: Held| {
        let token = term.fencing_token().into();
        assert!(token > last);
        last = token;
        terms += 1;
        let (locks, is_last) = (&locks, terms == 5);
        async move {
            if !is_last {
                assert!(locks.admin().force_release(KEY).await.unwrap());
                pending::<()>().await;
            }
        }
    };
    locks.lock(KEY).lead(work).await.unwrap();
    assert_eq!(terms, 5);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_ends_before_another_one_leads() {
    let server = Server::new();
    let (section, terms) = (Arc::new(Section::default()), Arc::<AtomicU64>::default());
    let replicas = [server.locks(), server.locks()];
    let leading = replicas.clone().map(|locks| {
        let (section, terms) = (Arc::clone(&section), Arc::clone(&terms));
        tokio::spawn(locks.lock(KEY).lead(move |_| {
            terms.fetch_add(1, Ordering::Relaxed);
            let section = Arc::clone(&section);
            // The section panics if two are inside.
            async move { section.visit_until(pending()).await }
        }))
    });
    sleep(SECOND).await;
    for _ in 0..5 {
        for locks in &replicas {
            server.partition(locks);
            sleep(2 * TTL).await;
            server.heal(locks);
            sleep(2 * TTL).await;
        }
    }
    assert_eq!(terms.load(Ordering::Relaxed), 11);
    for leading in leading {
        assert!(!leading.is_finished());
        leading.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn work_may_re_enter_the_lock_and_does_not_lead_inside_of_it() {
    let locks = Locks::in_memory();
    let work = |_| async {
        let depth = locks.with_lock(KEY, async { reentry::held(KEY).map(|held| held.depth()) });
        assert_eq!(depth.await.unwrap(), Some(2));
        locks.lock(KEY).lead(|_| async {}).await
    };
    let inner = locks.lock(KEY).lead(work).await.unwrap();
    assert!(matches!(inner, Err(LockError::Misuse { .. })), "{inner:?}");
}

/// This also covers a candidate whose acquisitions end with an outage.
#[tokio::test(start_paused = true)]
async fn a_candidate_waits_during_an_outage_and_for_another_leader() {
    let server = Server::new();
    let locks = server.builder().outage(3 * SECOND).build().await.unwrap();
    let elsewhere = server.locks().lock(KEY).await.unwrap();
    // The limits of a wait have no effect.
    let request = locks.lock(KEY).no_wait().retry(2, SECOND);
    let leading = tokio::spawn(request.lead(|_| async {}));
    sleep(3_600 * SECOND).await;
    assert!(!leading.is_finished());
    server.stop();
    sleep(3_600 * SECOND).await;
    assert!(!leading.is_finished());
    server.start();
    drop(elsewhere);
    timeout(TTL, leading).await.unwrap().unwrap().unwrap();
}

//! The connection for commands is the crate's own, and is replaced when it stops working.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::support::runtime::runtime;
use crate::support::{
    DEADLINE, Direction, RedisServer, Rig, connect, eventually, patient_at, within,
};
use deadpool_redis::Pool;
use futures_util::FutureExt;
use redis::cmd;
use reentry::{Locks, LocksBuilder};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

const KEY: &str = "order:42";
const SECOND: Duration = Duration::from_secs(1);

fn pool(server: &RedisServer) -> Pool {
    let config = deadpool_redis::Config::from_url(server.url());
    let pool = config.builder().unwrap().max_size(4);
    let runtime = deadpool_redis::Runtime::Tokio1;
    pool.runtime(runtime).build().unwrap()
}

fn over(pool: Pool) -> LocksBuilder {
    let builder = Locks::builder_with_pool(pool);
    builder.connect_timeout(DEADLINE).response_timeout(DEADLINE)
}

#[tokio::test]
async fn a_program_that_selects_another_database_does_not_move_our_locks() {
    let server = RedisServer::start().await;
    let pool = pool(&server);
    let locks = over(pool.clone()).build().await.unwrap();
    let elsewhere = connect(&server).await;
    let _held = elsewhere.lock(KEY).await.unwrap();
    assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    for _ in 0..4 {
        let mut theirs = pool.get().await.unwrap();
        let () = cmd("SELECT").arg(3).query_async(&mut theirs).await.unwrap();
        assert!(locks.lock(KEY).try_acquire().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_blocking_command_of_the_program_does_not_block_our_locks() {
    let server = RedisServer::start().await;
    let pool = pool(&server);
    let locks = over(pool.clone()).build().await.unwrap();
    let mut theirs = pool.get().await.unwrap();
    theirs.set_response_timeout(DEADLINE);
    let mut waiting = cmd("BLPOP");
    let waiting = waiting.arg("jobs").arg(0);
    let popped = waiting.query_async::<(String, String)>(&mut theirs);
    tokio::pin!(popped);
    let ours = async {
        eventually(DEADLINE, "they are blocked", async || {
            server.ask("CLIENT LIST").await.contains("cmd=blpop")
        })
        .await;
        locks.with_lock(KEY, async {}).await.unwrap();
    };
    tokio::select! {
        _ = &mut popped => panic!("no job is pushed"),
        () = ours => {}
    }
}

#[tokio::test]
async fn a_silent_connection_is_replaced_before_the_lease_ends() {
    // The patience of a renewal, a sixth of the TTL, is shorter than the response timeout.
    let rig = Rig::build(|builder| builder.ttl(4 * SECOND).response_timeout(SECOND)).await;
    let before = rig.proxy.connections();
    let body = async {
        rig.proxy.hold_present(Direction::ToServer);
        rig.proxy.hold_present(Direction::ToClient);
        eventually(DEADLINE, "a new connection renews", async || {
            let renewed = reentry::held(KEY).unwrap().remaining() > 3 * SECOND;
            rig.proxy.connections() > before && renewed
        })
        .await;
    };
    let held = within(DEADLINE, "the body", rig.locks.with_lock(KEY, body));
    held.await.unwrap();
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_left_for_the_one_behind_its_name() {
    let (old, new) = (RedisServer::start().await, RedisServer::start().await);
    let primary = Arc::new(AtomicU16::new(old.port()));
    let name = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = name.local_addr().unwrap().port();
    let resolved = Arc::clone(&primary);
    tokio::spawn(async move {
        loop {
            let (mut client, _) = name.accept().await.unwrap();
            let server = ("127.0.0.1", resolved.load(Ordering::SeqCst));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let url = format!("redis://127.0.0.1:{port}");
    let locks = patient_at(url).wait(DEADLINE).build().await;
    let locks = locks.unwrap();
    locks.with_lock(KEY, async {}).await.unwrap();
    primary.store(new.port(), Ordering::SeqCst);
    old.ask(&format!("REPLICAOF 127.0.0.1 {}", new.port()))
        .await;
    locks.with_lock(KEY, async {}).await.unwrap();
}

#[tokio::test]
async fn a_connection_for_commands_that_is_cut_is_replaced() {
    let server = RedisServer::start().await;
    let locks = patient_at(server.url()).build().await.unwrap();
    let nested = async {
        server.kill_command_connections().await;
        locks.with_lock(KEY, async { 6 * 7 }).await
    };
    let output = within(DEADLINE, "the body", locks.with_lock(KEY, nested)).await;
    assert_eq!(output.unwrap().unwrap(), 42);
    server.kill_command_connections().await;
    let guard = locks.lock(KEY).wait(Duration::MAX).acquire();
    let guard = within(DEADLINE, "a lock", guard).await;
    guard.unwrap().release().await.unwrap();
}

#[test]
fn a_runtime_without_io_is_an_error() {
    let (told, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_time().build().unwrap();
        let connected = runtime.block_on(Locks::connect("redis://127.0.0.1:1"));
        told.send(connected.is_err()).unwrap();
    });
    assert!(answer.recv_timeout(DEADLINE).expect("it does not spin"));
}

/// On such a connection the driver has a timer for each request, which belongs to the runtime that polls it.
#[test]
fn a_request_over_a_pool_outlives_the_runtime_that_polled_it() {
    let home = Runtime::new().unwrap();
    let (server, locks) = home.block_on(async {
        let server = RedisServer::start().await;
        let locks = over(pool(&server)).build().await.unwrap();
        (server, locks)
    });
    let admin = locks.admin();
    let mut asking = Box::pin(admin.inspect(KEY));
    server.pause();
    let other = runtime();
    assert!(other.block_on(async { (&mut asking).now_or_never().is_none() }));
    drop(other);
    let asked = home.block_on(async { within(DEADLINE, "an end", asking).await });
    assert!(asked.unwrap_err().is_unavailable());
    server.resume();
}

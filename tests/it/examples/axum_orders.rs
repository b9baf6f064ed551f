//! The example `axum_orders`: over sockets, beside another holder, without its Redis, and ended by SIGTERM.

use std::time::Duration;

use super::client::{Answer, post};
use super::clock::{self, go_on};
use crate::support::{Child, DEADLINE, RedisServer, child, connect, depths, eventually};
use reentry::{Locks, Reentrancy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[path = "../../../examples/services/axum_orders.rs"]
#[allow(dead_code, reason = "its `main` is not run here")]
mod example;

/// How long shipping takes.
const WORK: Duration = Duration::from_secs(1);
/// How long a request waits for its order.
const WAIT: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn role_that_serves() {
    let Some(role) = child::role("role_that_serves") else {
        return;
    };
    let mut builder = clock::locks_of(&role);
    if role.var("MAY_REENTER") == "no" {
        builder = builder.reentrancy(Reentrancy::Forbid);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = example::serve(listener, builder.build_lazy().unwrap());
    clock::run(&role, service).await.unwrap();
}

/// The service in a process of its own.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    async fn start(server: &RedisServer) -> Service {
        Service::start_with(server, "yes").await
    }

    async fn start_with(server: &RedisServer, may_reenter: &str) -> Service {
        let variables = [("REDIS_URL", &*server.url()), ("MAY_REENTER", may_reenter)];
        let mut child = Child::spawn(module_path!(), "role_that_serves", &variables);
        let address = child.wait_for_line("listening on http://").await;
        Service { child, address }
    }

    /// Asks to ship an order.
    fn ship(&self, order: u32) -> JoinHandle<Answer> {
        let address = self.address.clone();
        tokio::spawn(async move { post(&address, &format!("/orders/{order}/ship")).await })
    }

    /// Waits until a request is at work, so that nothing but the clock keeps it. Redis would tell too soon: there the
    /// lock is taken before the service has read that it is.
    async fn until_working(&mut self) {
        self.child.wait_for_line("booking the carrier").await;
    }
}

/// Waits until the service waits for a lock that this process has.
async fn until_waiting(server: &RedisServer, locks: &Locks, key: &str) {
    let waits = async || {
        let info = locks.inspect(key).await.unwrap();
        let stands = info.is_some_and(|info| info.waiting_processes == 1);
        // It subscribes when it has read that the lock is taken; this process waits for nothing.
        stands && !server.subscriptions().await.is_empty()
    };
    eventually(DEADLINE, &format!("the service waits for {key}"), waits).await;
}

/// Whether the client learns nothing of what is inside.
fn tells_nothing(answer: &Answer) -> bool {
    let inside = ["order:", "lock", "redis", "127.0.0.1", "token"];
    let body = answer.body.to_lowercase();
    inside.iter().all(|word| !body.contains(word))
}

#[tokio::test]
async fn a_handler_and_what_it_calls_hold_one_lock() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let mut service = Service::start(&server).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let answer = service.ship(7);
        service.until_working().await;
        assert_eq!(depths(&locks, "order:7").await, [2]);
        let info = locks.inspect("order:7").await.unwrap().unwrap();
        let token = info.token.unwrap();
        go_on(&mut service.child, WORK);
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let shipped = format!("order 7 is shipped: depth 2, token {token}\n");
        assert_eq!(answer.body, shipped);
        tokens.push(token);
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    assert!(server.leftovers().await.is_empty());
}

#[tokio::test]
async fn an_order_that_another_process_ships_is_a_conflict() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let mut service = Service::start(&server).await;
    let guard = locks.lock("order:7").await.unwrap();
    let answer = service.ship(7);
    until_waiting(&server, &locks, "order:7").await;
    go_on(&mut service.child, WAIT);
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(tells_nothing(&answer), "{answer:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn the_service_starts_before_its_redis() {
    let server = RedisServer::start().await;
    server.stop();
    let mut service = Service::start(&server).await;
    let answer = service.ship(7);
    service.child.wait_for_line("acquire_retried").await;
    go_on(&mut service.child, WAIT);
    let answer = answer.await.unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(tells_nothing(&answer), "{answer:?}");
    let logged = service.child.wait_for_line("no lock").await;
    assert!(logged.contains("order:7"), "{logged}");

    server.start_again().await;
    // Past the pause before the next attempt to connect.
    go_on(&mut service.child, Duration::from_secs(1));
    let answer = service.ship(7);
    service.until_working().await;
    go_on(&mut service.child, WORK);
    assert_eq!(answer.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_mistake_of_the_program_is_logged_and_not_shown() {
    let server = RedisServer::start().await;
    let mut service = Service::start_with(&server, "no").await;
    let answer = service.ship(7).await.unwrap();
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.body, "internal error\n");
    let logged = service.child.wait_for_line("the request failed").await;
    assert!(logged.contains("already held"), "{logged}");
}

/// One request works and one waits. The one that waits does not keep the other one from being the last.
#[tokio::test]
async fn sigterm_ends_the_waiting_and_lets_the_work_finish() {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let mut service = Service::start(&server).await;
    let guard = locks.lock("order:8").await.unwrap();
    let _idle = TcpStream::connect(&service.address).await.unwrap();
    let working = service.ship(7);
    service.until_working().await;
    let waiting = service.ship(8);
    until_waiting(&server, &locks, "order:8").await;

    service.child.sigterm();
    let answer = waiting.await.unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(tells_nothing(&answer), "{answer:?}");
    let refused = async || TcpStream::connect(&service.address).await.is_err();
    eventually(DEADLINE, "no connection is accepted", refused).await;
    assert!(!working.is_finished());
    assert_eq!(depths(&locks, "order:7").await, [2]);

    go_on(&mut service.child, WORK);
    let answer = working.await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let report = service.child.wait_for_line("locks closed:").await;
    assert_eq!(report, "nothing is left");
    assert!(service.child.finished().await);
    guard.release().await.unwrap();
    assert!(server.leftovers().await.is_empty());
}

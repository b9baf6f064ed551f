//! A web service: a request holds the lock of its order, and the functions that the handler calls re-enter it.
//!
//! ```text
//! cargo run --example axum_orders      # or with REDIS_URL=redis://127.0.0.1:6379 and ADDRESS=0.0.0.0:8080
//! curl -i -X POST http://127.0.0.1:3000/orders/42/ship
//! cargo test --package reentry-services --example axum_orders
//! ```
//!
//! It can start before its Redis server, and returns 503 until Redis is available. SIGTERM or Ctrl-C ends it: requests that
//! wait for a lock get 503 immediately, requests that hold a lock finish, and no lock is left.

mod signal;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use reentry::{FencingToken, LockError, Locks, LocksBuilder, locked};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// How long requests that hold a lock may continue after the signal.
const BODIES: Duration = Duration::from_secs(20);
/// How long the last responses may take after that. Together with [`BODIES`], it is less than the 30 s after which
/// Kubernetes kills the process.
const ANSWERS: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error + Send + Sync>;

/// The carrier, which all replicas of the service share. It gets one parcel for each order.
#[derive(Clone)]
struct Carrier {
    parcels: Arc<Mutex<BTreeMap<u64, FencingToken>>>,
    /// How long it takes to send a parcel.
    takes: Duration,
}

impl Carrier {
    fn new(takes: Duration) -> Self {
        let parcels = Arc::default();
        Self { parcels, takes }
    }

    /// The token with which the parcel of this order was sent.
    fn parcel(&self, order: u64) -> Option<FencingToken> {
        self.parcels().get(&order).copied()
    }

    /// Sends a parcel. A real carrier rejects a stale token: see the example `fenced_writes`.
    async fn send(&self, order: u64, token: FencingToken) {
        sleep(self.takes).await;
        self.parcels().insert(order, token);
    }

    fn parcels(&self) -> MutexGuard<'_, BTreeMap<u64, FencingToken>> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `POST /orders/{id}/ship`: one request at a time for each order, in all replicas of the service.
#[locked("order:{id}")]
async fn ship(State(carrier): State<Carrier>, Path(id): Path<u64>) -> Result<String, ApiError> {
    if carrier.parcel(id).is_some() {
        return Ok(format!("order {id} was shipped before\n"));
    }
    send(&carrier, id).await?;
    Ok(format!("order {id} is shipped\n"))
}

/// Acquires the lock of the order, for any caller. Its caller `ship` holds the lock, so the call re-enters it.
#[locked("order:{id}", held = lock)]
async fn send(carrier: &Carrier, id: u64) -> Result<(), LockError> {
    carrier.send(id, lock.fencing_token()).await;
    Ok(())
}

/// Why a request failed. The client learns what it can do, and nothing about locks.
struct ApiError(LockError);

impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        let (status, answer) = if error.is_busy() || error.is_deadlock() {
            (StatusCode::CONFLICT, "the order is busy, try again\n")
        } else if error.is_unavailable() || error.is_closed() || error.is_lost() {
            let answer = "not available, try again later\n";
            (StatusCode::SERVICE_UNAVAILABLE, answer)
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error\n")
        };
        if status.is_server_error() {
            tracing::error!(cause = &error as &dyn Error, "a request failed");
        }
        (status, answer).into_response()
    }
}

/// The settings that the program and its tests share, whatever store they use. It connects at the first request.
fn configured(locks: LocksBuilder) -> Result<Locks, LockError> {
    // The client waits, too. So the limit is three seconds instead of a minute.
    let locks = locks.prefix("shop:").wait(Duration::from_secs(3));
    locks.ttl(Duration::from_secs(5)).build_lazy()
}

fn app(locks: Locks, carrier: Carrier) -> Router {
    let ship = post(ship).with_state(carrier);
    let in_scope = middleware::from_fn_with_state(locks, with_locks);
    Router::new()
        .route("/orders/{id}/ship", ship)
        .layer(in_scope)
}

/// Gives each request the locks that `#[locked]` uses.
async fn with_locks(State(locks): State<Locks>, request: Request, next: Next) -> Response {
    locks.scope(next.run(request)).await
}

/// Serves until `end`, and then until all requests that have begun are finished.
async fn serve(
    listener: TcpListener,
    app: Router,
    locks: Locks,
    end: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let server = tokio::spawn(server.into_future());
    end.await;
    // 1. No further connection is accepted.
    drop(stop);
    // 2. Requests that wait for a lock fail now, and not at the end of their `wait`. Requests that hold a lock continue.
    println!("locks closed: {}", locks.close(BODIES).await);
    // 3. A client that sends half a request, or does not read its response, delays the end by at most this time.
    match timeout(ANSWERS, server).await {
        Ok(ended) => ended??,
        Err(_) => println!("some clients got no response"),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().init();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let locks = configured(Locks::builder(url))?;
    let app = app(locks.clone(), Carrier::new(Duration::from_secs(1)));
    let listener = TcpListener::bind(address).await?;
    let end = signal::terminated()?;
    println!("listening on http://{}", listener.local_addr()?);
    serve(listener, app, locks, end).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use reentry::testing::Server;
    use tokio::join;
    use tokio::time::Instant;
    use tower::ServiceExt;

    use super::*;

    const TAKES: Duration = Duration::from_secs(2);

    /// One replica of the service.
    struct Replica {
        locks: Locks,
        app: Router,
    }

    impl Replica {
        fn new(server: &Server, carrier: &Carrier) -> Self {
            let locks = configured(server.builder()).unwrap();
            let app = app(locks.clone(), carrier.clone());
            Self { locks, app }
        }

        async fn ship(&self, order: u64) -> StatusCode {
            let request = Request::post(format!("/orders/{order}/ship"));
            let request = request.body(Body::empty()).unwrap();
            self.app.clone().oneshot(request).await.unwrap().status()
        }
    }

    /// The server of the locks, two replicas of the service, and the carrier.
    fn shop() -> (Server, Replica, Replica, Carrier) {
        let (server, carrier) = (Server::new(), Carrier::new(TAKES));
        let [one, other] = [(); 2].map(|()| Replica::new(&server, &carrier));
        (server, one, other, carrier)
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_shipped_once() {
        let (_server, one, other, _carrier) = shop();
        let start = Instant::now();
        let both = join!(one.ship(42), other.ship(42));
        assert_eq!(both, (StatusCode::OK, StatusCode::OK));
        assert_eq!(start.elapsed(), TAKES, "the second one finds it shipped");
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_stays_busy_is_a_conflict() {
        let (_server, one, other, _carrier) = shop();
        let _elsewhere = one.locks.lock("order:42").await.unwrap();
        assert_eq!(other.ship(42).await, StatusCode::CONFLICT);
        assert_eq!(other.ship(43).await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_server_of_the_locks_the_service_is_unavailable() {
        let (server, one, _other, _carrier) = shop();
        server.stop();
        assert_eq!(one.ship(42).await, StatusCode::SERVICE_UNAVAILABLE);
        server.start();
        assert_eq!(one.ship(42).await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_loses_its_lock_sends_nothing() {
        let (_server, one, other, carrier) = shop();
        let operator = async {
            sleep(TAKES / 2).await;
            other.locks.admin().force_release("order:42").await.unwrap()
        };
        let (status, was_held) = join!(one.ship(42), operator);
        assert!(was_held);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(carrier.parcel(42), None);
        assert_eq!(one.ship(42).await, StatusCode::OK);
    }

    /// The handler is dropped when its lease expires, before the other replica can enter.
    #[tokio::test(start_paused = true)]
    async fn a_replica_that_is_cut_off_sends_nothing_late() {
        let (server, _one, other, carrier) = shop();
        let slow = Carrier {
            takes: Duration::from_secs(60),
            ..carrier
        };
        let slow = Replica::new(&server, &slow);
        let next = async {
            sleep(Duration::from_secs(1)).await;
            server.partition(&slow.locks);
            let early = other.ship(42).await;
            assert_eq!(early, StatusCode::CONFLICT, "the lease has not expired");
            other.ship(42).await
        };
        let both = join!(slow.ship(42), next);
        assert_eq!(both, (StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK));
    }

    /// As with SIGKILL, the replica sends nothing more, not even the release of its lock.
    #[tokio::test(start_paused = true)]
    async fn another_replica_takes_over_from_one_that_has_died() {
        let (server, one, other, carrier) = shop();
        let _ = timeout(TAKES / 2, async {
            let cut_off = async {
                sleep(TAKES / 4).await;
                server.partition(&one.locks);
            };
            join!(one.ship(42), cut_off)
        })
        .await;
        assert_eq!(carrier.parcel(42), None);
        assert_eq!(other.ship(42).await, StatusCode::CONFLICT);
        assert_eq!(other.ship(42).await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_the_server_executes_late_keeps_no_lock() {
        let (server, one, other, _carrier) = shop();
        assert_eq!(one.ship(1).await, StatusCode::OK);
        server.pause();
        assert_eq!(one.ship(42).await, StatusCode::SERVICE_UNAVAILABLE);
        server.resume();
        assert_eq!(other.ship(42).await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_shorter_than_the_lease_is_not_noticed() {
        let (server, one, _other, _carrier) = shop();
        let outage = async {
            sleep(TAKES / 4).await;
            server.stop();
            sleep(TAKES / 4).await;
            server.start();
        };
        assert_eq!(join!(one.ship(42), outage).0, StatusCode::OK);
    }

    /// The server no longer knows who is inside. The carrier decides by the greater token.
    #[tokio::test(start_paused = true)]
    async fn after_lost_data_the_later_one_has_the_greater_token() {
        let (server, one, other, carrier) = shop();
        let first = one.locks.lock("order:42").await.unwrap();
        server.lose_data();
        assert_eq!(other.ship(42).await, StatusCode::OK);
        assert!(carrier.parcel(42) > Some(first.held().fencing_token()));
    }

    /// Axum drops the handler.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_hangs_up_leaves_no_lock() {
        let (_server, one, other, _carrier) = shop();
        assert!(timeout(TAKES / 2, one.ship(42)).await.is_err());
        let start = Instant::now();
        assert_eq!(other.ship(42).await, StatusCode::OK);
        assert_eq!(start.elapsed(), TAKES);
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_end_a_request_that_waits_gives_up_and_one_at_work_finishes() {
        let (_server, one, other, _carrier) = shop();
        let _elsewhere = other.locks.lock("order:43").await.unwrap();
        let end = async {
            sleep(TAKES / 2).await;
            one.locks.close(BODIES).await
        };
        let (working, waiting, report) = join!(one.ship(42), one.ship(43), end);
        assert_eq!(working, StatusCode::OK);
        assert_eq!(waiting, StatusCode::SERVICE_UNAVAILABLE);
        assert!(report.is_clean(), "{report}");
    }

    /// The whole service on a real connection, which needs real time.
    #[cfg(unix)]
    #[tokio::test]
    async fn sigterm_lets_a_request_finish() {
        use std::process::{self, Command};
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        use tokio::net::TcpStream;

        let locks = configured(Locks::builder("memory:")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = signal::terminated().unwrap();
        let carrier = Carrier::new(Duration::from_millis(200));
        let app = app(locks.clone(), carrier.clone());
        let service = tokio::spawn(serve(listener, app, locks.clone(), end));

        let mut client = TcpStream::connect(address).await.unwrap();
        let request = b"POST /orders/42/ship HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let is_at_work = async || locks.admin().inspect("order:42").await.unwrap().is_some();
        while !is_at_work().await && carrier.parcel(42).is_none() {
            sleep(Duration::from_millis(5)).await;
        }
        let kill = Command::new("kill").arg(process::id().to_string()).status();
        assert!(kill.unwrap().success());

        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        service.await.unwrap().unwrap();
        assert!(locks.lock("order:42").await.unwrap_err().is_closed());
        assert!(TcpStream::connect(address).await.is_err());
    }
}

//! A web service: whoever ships an order holds its lock, and what is called on the way re-enters it.
//!
//! ```text
//! cargo run --example axum_orders      # or with REDIS_URL=redis://127.0.0.1:6379 and ADDRESS=0.0.0.0:8080
//! curl -i -X POST http://127.0.0.1:3000/orders/42/ship
//! ```
//!
//! It starts before its Redis; until that is there it answers 503. Of many requests for one order the last ones get 409.
//! SIGTERM or Ctrl-C ends it: what waits for a lock gets 503 at once, what has one finishes, and no lock is left.

use std::error::Error;
use std::time::Duration;
use std::{env, io};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use reentry::{LockError, Locks, locked};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// How long a request waits while others ship its order: a client would rather ask again than wait for a minute.
const WAIT: Duration = Duration::from_secs(2);
/// How long those that have a lock may go on after the signal.
const BODIES: Duration = Duration::from_secs(20);
/// How long the last answers may take after that. With [`BODIES`] it is less than the 30 s after which Kubernetes kills.
const ANSWERS: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error + Send + Sync>;

/// `POST /orders/{id}/ship`. One request at a time for each order, among all replicas of the service.
///
/// It is dropped at an `.await` where the lock is lost, or the client hangs up: each step can be done again.
#[locked("order:{id}", wait = WAIT)]
async fn ship(Path(id): Path<u64>) -> Result<String, ApiError> {
    let booked = book_carrier(id).await?;
    Ok(format!("order {id} is shipped: {booked}\n"))
}

/// Takes the lock of the order as well, whoever calls it; here its caller has it already.
#[locked("order:{id}", wait = WAIT, held = lock)]
async fn book_carrier(id: u64) -> Result<String, ApiError> {
    let (depth, token) = (lock.depth(), lock.fencing_token());
    tracing::info!(id, depth, %token, "booking the carrier");
    // Stands for the request to the carrier. The token goes along, so that one of an older holder is refused.
    sleep(Duration::from_secs(1)).await;
    Ok(format!("depth {depth}, token {token}"))
}

/// Why a request failed. The client is told what it can do, and nothing of what is inside.
struct ApiError(LockError);

impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(error) = self;
        // With the causes of the error, which are for the operator alone.
        let cause = &error as &dyn Error;
        if error.is_contended() || error.is_deadlock() {
            let answer = "the order is busy, try again\n";
            (StatusCode::CONFLICT, [(RETRY_AFTER, "1")], answer).into_response()
        } else if error.is_unavailable() || error.is_closed() {
            tracing::warn!(cause, "no lock");
            let answer = "not available, try again later\n";
            let status = StatusCode::SERVICE_UNAVAILABLE;
            (status, [(RETRY_AFTER, "5")], answer).into_response()
        } else {
            tracing::error!(cause, "the request failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error\n").into_response()
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    // It connects at the first request.
    // An outage is a 503 after five seconds, however long callers may queue behind each other.
    let builder = Locks::builder().url(url).outage(Duration::from_secs(5));
    let locks = builder.build_lazy()?;
    serve(TcpListener::bind(address).await?, locks).await
}

/// Serves until SIGTERM or Ctrl-C, and then until all that has begun is over.
pub(crate) async fn serve(listener: TcpListener, locks: Locks) -> Result<(), Failure> {
    locks.install()?;
    let end = signalled()?;
    println!("listening on http://{}", listener.local_addr()?);
    let app = Router::new().route("/orders/{id}/ship", post(ship));
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let server = tokio::spawn(server.into_future());
    end.await;
    // First no connection is accepted any more.
    drop(stop);
    // Before the requests are awaited, not after: one that waits for a lock may do so for as long as its `wait`, and
    // then has a lock to work under. Now it ends at once, and those with a lock go on.
    let report = locks.close_within(BODIES).await;
    println!("locks closed: {report}");
    // A client that sends half a request, or does not take its answer, keeps the server no longer than this.
    match timeout(ANSWERS, server).await {
        Ok(ended) => ended??,
        Err(_) => println!("some clients have got no answer"),
    }
    Ok(())
}

/// Resolves at SIGTERM or Ctrl-C; also if that comes after this call, but before it is awaited.
#[cfg(unix)]
fn signalled() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn signalled() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

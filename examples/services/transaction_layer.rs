//! A web service whose requests have a transaction that a layer commits. The lock must enclose the COMMIT, so another layer
//! takes it, around the first one.
//!
//! ```text
//! cargo run --example transaction_layer      # or with REDIS_URL=redis://127.0.0.1:6379 and ADDRESS=0.0.0.0:8080
//! curl -i -X POST http://127.0.0.1:3000/products/7/sell
//! cargo test --package reentry-services --example transaction_layer
//! ```

mod signal;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use reentry::{LockError, Locks, locked};
use tokio::net::TcpListener;
use tokio::time::sleep;

type Failure = Box<dyn Error + Send + Sync>;
/// The pieces of each product.
type Stock = BTreeMap<u64, u32>;

/// The database, which all replicas share. As in a real one with `READ COMMITTED`, a transaction reads what others have
/// committed, and others see its writes when it is committed.
#[derive(Clone, Default)]
struct Database(Arc<Mutex<Stock>>);

#[derive(Clone)]
struct Transaction {
    database: Database,
    writes: Arc<Mutex<Stock>>,
}

fn lock(stock: &Mutex<Stock>) -> MutexGuard<'_, Stock> {
    stock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Database {
    fn begin(&self) -> Transaction {
        let (database, writes) = (self.clone(), Arc::default());
        Transaction { database, writes }
    }
}

impl Transaction {
    /// The pieces of the product.
    async fn stock(&self, product: u64) -> u32 {
        sleep(Duration::from_millis(1)).await;
        let stock = lock(&self.database.0);
        stock.get(&product).copied().unwrap_or_default()
    }

    fn set_stock(&self, product: u64, pieces: u32) {
        lock(&self.writes).insert(product, pieces);
    }

    async fn commit(&self) {
        sleep(Duration::from_millis(5)).await;
        let writes = take(&mut *lock(&self.writes));
        lock(&self.database.0).extend(writes);
    }
}

/// Begins a transaction for each request, and commits it if the handler has succeeded. Many services have such a layer.
async fn in_transaction(
    State(database): State<Database>,
    mut request: Request,
    next: Next,
) -> Response {
    let transaction = database.begin();
    request.extensions_mut().insert(transaction.clone());
    let response = next.run(request).await;
    if response.status().is_success() {
        transaction.commit().await;
    }
    response
}

/// Holds the lock of the product around all inner layers.
async fn in_lock(
    State(locks): State<Locks>,
    Path(id): Path<u64>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let response = locks.with_lock(format!("product:{id}"), next.run(request));
    response.await.map_err(|error| status(&error))
}

/// `POST /products/{id}/sell`
async fn sell(
    Extension(transaction): Extension<Transaction>,
    Path(id): Path<u64>,
) -> Result<String, StatusCode> {
    match transaction.stock(id).await {
        0 => Err(StatusCode::CONFLICT),
        stock => {
            transaction.set_stock(id, stock - 1);
            Ok(format!("{} left\n", stock - 1))
        }
    }
}

fn app(locks: Locks, database: Database) -> Router {
    let sell = post(sell)
        .layer(from_fn_with_state(database, in_transaction))
        .layer(from_fn_with_state(locks, in_lock)); // the outermost one, since it is added last
    Router::new().route("/products/{id}/sell", sell)
}

/// Without such a layer, the transaction begins and is committed inside the lock.
#[locked("product:{id}", locks = locks)]
async fn restock(
    locks: &Locks,
    database: &Database,
    id: u64,
    pieces: u32,
) -> Result<(), LockError> {
    let transaction = database.begin();
    let stock = transaction.stock(id).await;
    transaction.set_stock(id, stock + pieces);
    transaction.commit().await; // still under the lock
    Ok(())
}

/// The example `axum_orders` has the whole mapping.
fn status(error: &LockError) -> StatusCode {
    if error.is_busy() {
        return StatusCode::CONFLICT;
    }
    tracing::error!(cause = error as &dyn Error, "a request failed");
    StatusCode::SERVICE_UNAVAILABLE
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().init();
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let locks = Locks::connect(url).await?;
    let database = Database::default();
    restock(&locks, &database, 7, 3).await?;
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let server = axum::serve(listener, app(locks.clone(), database));
    server.with_graceful_shutdown(signal::terminated()?).await?;
    println!("{}", locks.close(Duration::from_secs(1)).await);
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tokio::join;
    use tower::ServiceExt;

    use super::*;

    /// What two clients get who buy the last piece at the same time.
    async fn last_piece(app: fn(Locks, Database) -> Router) -> [StatusCode; 2] {
        let (locks, database) = (Locks::in_memory(), Database::default());
        restock(&locks, &database, 7, 1).await.unwrap();
        let buy = async || {
            let request = Request::post("/products/7/sell").body(Body::empty());
            let app = app(locks.clone(), database.clone());
            app.oneshot(request.unwrap()).await.unwrap().status()
        };
        let (first, second) = join!(buy(), buy());
        [first, second]
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_around_the_commit_sells_the_last_piece_once() {
        let sold = last_piece(app).await;
        assert_eq!(sold, [StatusCode::OK, StatusCode::CONFLICT]);
    }

    /// The wrong order: the second one reads the stock before the first one has committed.
    #[tokio::test(start_paused = true)]
    async fn a_lock_inside_the_transaction_sells_the_last_piece_twice() {
        let sold = last_piece(|locks, database| {
            let sell = post(sell)
                .layer(from_fn_with_state(locks, in_lock))
                .layer(from_fn_with_state(database, in_transaction));
            Router::new().route("/products/{id}/sell", sell)
        });
        assert_eq!(sold.await, [StatusCode::OK, StatusCode::OK]);
    }

    #[tokio::test(start_paused = true)]
    async fn deliveries_at_the_same_time_are_all_counted() {
        let (locks, database) = (Locks::in_memory(), Database::default());
        let deliver = || restock(&locks, &database, 7, 1);
        let delivered = join!(deliver(), deliver(), deliver());
        assert!(matches!(delivered, (Ok(()), Ok(()), Ok(()))));
        assert_eq!(database.begin().stock(7).await, 3);
    }
}

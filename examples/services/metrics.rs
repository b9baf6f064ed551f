//! Metrics for Prometheus: a program that acquires locks, and serves its metrics.
//!
//! ```text
//! cargo run --example metrics   # or with REDIS_URL=redis://127.0.0.1:6379 and ADDRESS=0.0.0.0:9000
//! curl http://127.0.0.1:9000/metrics
//! ```
//!
//! `docs/operations.md` describes each metric, and `docs/observability` has a dashboard for Grafana and rules for alerts.

use std::env;
use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use reentry::Locks;
use tokio::net::TcpListener;
use tokio::time::{interval, sleep};

type Failure = Box<dyn Error + Send + Sync>;

/// The buckets, from a round trip to the default of `wait`.
const SECONDS: [f64; 12] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 30.0, 60.0,
];

/// A recorder with buckets. Without buckets it would create summaries, which cannot be added up across processes.
pub(crate) fn recorder() -> Result<PrometheusBuilder, Failure> {
    let times = Matcher::Suffix("_seconds".to_owned());
    Ok(PrometheusBuilder::new().set_buckets_for_metric(times, &SECONDS)?)
}

/// Serves `GET /metrics`.
pub(crate) async fn serve(listener: TcpListener, metrics: PrometheusHandle) -> Result<(), Failure> {
    let render = move || async move { metrics.render() };
    let router = Router::new().route("/metrics", get(render));
    Ok(axum::serve(listener, router).await?)
}

/// Three workers on one order. Each of them calls a helper that acquires the same lock.
async fn work(locks: Locks) {
    let worker = || async {
        let order = locks.with_lock("order:42", async {
            sleep(Duration::from_millis(20)).await;
            locks.with_lock("order:42", async {}).await
        });
        if let Err(error) = order.await {
            eprintln!("the order failed: {error}");
        }
        sleep(Duration::from_millis(100)).await;
    };
    loop {
        tokio::join!(worker(), worker(), worker());
    }
}

/// Histograms keep all values until they are drained, by a scrape or by this task.
async fn upkeep(metrics: PrometheusHandle) {
    let mut every = interval(Duration::from_secs(5));
    loop {
        every.tick().await;
        metrics.run_upkeep();
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The recorder is installed before the locks, which register the descriptions of their metrics.
    let metrics = recorder()?.install_recorder()?;
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = Locks::builder(url);
    // "order:42" is counted as "order".
    let locks = locks.metrics_class(|key| key.split(':').next().unwrap_or("other").to_owned());
    let locks = locks.build().await?;

    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:9000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    tokio::spawn(upkeep(metrics.clone()));
    tokio::spawn(work(locks));
    serve(listener, metrics).await
}

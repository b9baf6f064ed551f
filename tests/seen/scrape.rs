//! The metrics that a Prometheus finds, and those that the dashboard and the rules query.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use reentry::{LockError, Locks};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::page;
use crate::prometheus::{alerts, path, promtool};
use crate::support::{DEADLINE, RedisServer, eventually, patient, patient_at};

#[path = "../../examples/services/metrics.rs"]
#[allow(dead_code, reason = "its `main` is not run here")]
mod example;

const KEY: &str = "order:42";

fn file(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// The metrics that a text names, without the suffixes of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let is_name = |char: char| char.is_ascii_lowercase() || char == '_';
    let words = text.split(|char| !is_name(char));
    let names = words.filter(|word| word.starts_with("reentry_"));
    let plain = names.map(|name| name.trim_end_matches("_bucket"));
    plain.map(str::to_owned).collect()
}

/// Does each kind of operation.
async fn meet_everything(
    server: &RedisServer,
    metrics: &PrometheusHandle,
) -> Result<(), LockError> {
    let heartbeat = Duration::from_millis(50);
    let locks = patient(server).__heartbeat(heartbeat).build().await?;
    let other: Locks = patient(server).__heartbeat(heartbeat).build().await?;
    // A wait, a hand-off, a re-entry, and a renewal.
    let guard = locks.lock(KEY).ttl(Duration::from_secs(1)).await?;
    guard.scope(locks.with_lock(KEY, async {})).await??;
    let waiting = tokio::spawn(other.lock(KEY).acquire());
    let has = |text: &'static str| async move || metrics.render().contains(text);
    let renewed = has("reentry_renewals_total{answer=\"renewed\"}");
    eventually(DEADLINE, "a renewal", renewed).await;
    guard.release().await?;
    let guard = waiting.await.expect("no panic")?;
    // A loss, and a release in the background.
    locks.admin().force_release(KEY).await?;
    drop(guard);
    eventually(DEADLINE, "a loss", has("reentry_losses_total")).await;
    // This user may not subscribe.
    server
        .ask("ACL SETUSER mute on >word ~* &* +@all -subscribe")
        .await;
    let mute = patient_at(server.url().replace("://", "://mute:word@"));
    let mute = mute.build().await?;
    mute.with_lock("mute", async {}).await?;
    let no_subscription = has("reentry_subscribe_failures_total");
    eventually(DEADLINE, "no subscription", no_subscription).await;
    // This connection ends.
    server.kill_command_connections().await;
    eventually(DEADLINE, "its end", has("reentry_disconnects_total")).await;
    Ok(())
}

#[tokio::test]
async fn a_scrape_finds_every_metric_of_the_page() -> Result<(), LockError> {
    let recorder = example::recorder().unwrap().build_recorder();
    let metrics = recorder.handle();
    let recorder: &'static _ = Box::leak(Box::new(recorder));
    let _recording = metrics::set_default_local_recorder(recorder);
    let server = RedisServer::start().await;
    meet_everything(&server, &metrics).await?;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    let serving = tokio::spawn(example::serve(listener, metrics));
    let mut stream = TcpStream::connect(target).await.unwrap();
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    serving.abort();
    let (_, scraped) = answer.split_once("\r\n\r\n").unwrap();
    for name in page::metrics() {
        let kind = match &*name {
            name if name.ends_with("_total") => "counter",
            name if name.ends_with("_seconds") => "histogram",
            _ => "gauge",
        };
        let head = format!("# TYPE {name} {kind}\n");
        assert_eq!(scraped.matches(&head).count(), 1, "{head} in {scraped}");
    }
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(scraped.as_bytes()).unwrap();
    let checked = promtool(["check", "metrics"], written.path());
    assert!(checked.status.success(), "{checked:?}");
    Ok(())
}

#[test]
fn the_rules_are_accepted_by_promtool() {
    let checked = promtool(["check", "rules"], &path("alerts.yml"));
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn the_page_explains_every_alert() {
    for alert in alerts() {
        assert!(page::text().contains(&format!("| `{alert}` |")), "{alert}");
    }
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_there_are() {
    let there: BTreeSet<_> = page::metrics().into_iter().collect();
    let asked = named(&file("alerts.yml"));
    assert!(asked.is_subset(&there), "{asked:?}");
    assert_eq!(named(&file("dashboard.json")), there);
}

/// Each query of the dashboard is a rule here, with what Grafana fills in.
#[test]
fn prometheus_accepts_each_query_of_the_dashboard() {
    let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let rules = queries.enumerate().map(|(at, query)| {
        let query = query.replace("$__rate_interval", "1m");
        json!({ "record": format!("query:{at}"), "expr": query })
    });
    let rules = json!({ "groups": [{ "name": "dashboard", "rules": rules.collect::<Vec<_>>() }] });
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(rules.to_string().as_bytes()).unwrap();
    let checked = promtool(["check", "rules"], written.path());
    assert!(checked.status.success(), "{checked:?}");
}

//! A waiting caller learns the trace of the holder. The label of each hold is the ID of the trace in which the lock was
//! acquired.
//!
//! ```text
//! cargo run -p reentry-services --example traces
//! ```
//!
//! The spans go to an exporter in memory, which represents Jaeger, Tempo or a cloud service.

use std::time::Duration;

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use reentry::{LockError, Locks};
use tracing::{Instrument, Span, Subscriber, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let (exporter, subscriber) = exported();
    subscriber.init();
    let Some(label) = label_of_the_holder().await? else {
        println!("the lock was free");
        return Ok(());
    };
    println!("waited behind {label}");
    for name in named_by(&label, &exporter) {
        println!("which is {name}");
    }
    Ok(())
}

/// A subscriber whose spans are exported.
pub(crate) fn exported() -> (InMemorySpanExporter, impl Subscriber + Send + Sync) {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone());
    let tracer = provider.build().tracer("orders");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    (exporter, tracing_subscriber::registry().with(layer))
}

/// The names of the spans of the trace in a label.
pub(crate) fn named_by(label: &str, exporter: &InMemorySpanExporter) -> Vec<String> {
    let spans = exporter.get_finished_spans().unwrap_or_default();
    let named = spans
        .iter()
        .filter(|span| label.contains(&span.span_context.trace_id().to_string()));
    named.map(|span| span.name.to_string()).collect()
}

/// The trace of the caller, for the callers that wait for it.
fn trace(_key: &str) -> Option<String> {
    let context = Span::current().context();
    let trace = context.span().span_context().trace_id();
    Some(format!("trace {trace}"))
}

/// Shipping waits for an order that billing holds, and gives up. Returns the label of the holder in the error.
pub(crate) async fn label_of_the_holder() -> Result<Option<String>, LockError> {
    let builder = Locks::builder().url("memory:").labels(trace);
    let locks = builder.build().await?;
    let billing = locks.lock("order:42").acquire();
    let guard = billing.instrument(info_span!("charge")).await?;
    let shipping = locks.lock("order:42").wait(Duration::from_secs(2));
    let shipped = shipping.run(async {}).instrument(info_span!("ship")).await;
    guard.release().await?;
    match shipped {
        Err(LockError::Timeout { holder, .. }) => Ok(holder.and_then(|holder| holder.label)),
        shipped => shipped.map(|()| None),
    }
}

//! The label of a holder leads to its trace.

use crate::support::subscriber::subscribe;

#[path = "../../examples/services/traces.rs"]
#[allow(dead_code, reason = "its `main` is not run here")]
mod example;

#[tokio::test(start_paused = true)]
async fn the_label_that_a_waiter_is_told_names_an_exported_trace() {
    let (exporter, subscriber) = example::exported();
    let _guard = subscribe(subscriber);
    let label = example::label_of_the_holder().await.unwrap();
    let label = label.expect("the lock is held");
    let names = example::named_by(&label, &exporter);
    assert!(
        names.iter().any(|name| name == "charge"),
        "{label}: {names:?}"
    );
    assert!(
        !names.iter().any(|name| name == "ship"),
        "{label}: {names:?}"
    );
}

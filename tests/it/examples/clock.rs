//! An example in a process of its own, whose clock stands until the test lets it go on.
//!
//! So work goes on for as long as the test wants, and no timeout ends because the machine is busy.

use crate::support::child::Role;
use crate::support::turns::TTL;
use crate::support::{Child, patient_at};
use reentry::LocksBuilder;
use std::sync::mpsc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::advance;
use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// Locks on the server of the test, which have its patience.
pub(crate) fn locks_of(role: &Role) -> LocksBuilder {
    patient_at(role.var("REDIS_URL")).ttl(TTL)
}

/// Runs an example in a role, on the paused clock, until it ends. The test reads what it prints and logs.
pub(crate) async fn run<T>(role: &Role, example: impl Future<Output = T>) -> T {
    let log = fmt::layer().without_time().with_ansi(false);
    let log = log.with_level(false).with_target(false);
    // Without the spans around them each line begins with the event.
    let events = filter_fn(|it| it.is_event() && *it.level() <= Level::INFO);
    registry().with(log.with_filter(events)).init();
    // Ends the line that the test harness has begun.
    role.say("it starts");
    // Tokio advances a paused clock when nothing is to be done, but not while a blocking task runs.
    let (_over, until_over) = mpsc::channel::<()>();
    drop(spawn_blocking(move || until_over.recv()));
    let orders = async {
        loop {
            let millis = role.order().await.parse().expect("a number");
            advance(Duration::from_millis(millis)).await;
        }
    };
    tokio::select! {
        output = example => output,
        never = orders => never,
    }
}

/// Lets the clock of an example go on by so much.
pub(crate) fn go_on(child: &mut Child, by: Duration) {
    child.tell(&by.as_millis().to_string());
}

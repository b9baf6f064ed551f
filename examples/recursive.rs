//! Two contenders for one lock, each of which re-enters it once through a nested function and once
//! by recursion, with a timeline of the lock as the store shows it.
//!
//! `cargo run --example recursive`, or with `REDIS_URL=redis://127.0.0.1:6379` on a server.
//!
//! The TTL of 200 ms is shorter than the work under the lock, so the watchdog has to renew it.

use std::{
    fmt,
    sync::LazyLock,
    time::{Duration, Instant},
};

use reentry::{LockError, Locks, locked};
use tokio::time::sleep;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};

const KEY: &str = "order:42";
const TTL: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), LockError> {
    tracing_subscriber::registry()
        .with(Renewals.with_filter(Targets::new().with_target("reentry", Level::DEBUG)))
        .init();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    let locks = Locks::builder().url(url).ttl(TTL).build().await?;
    println!("time      who    step                       the lock in the store");

    let contenders = ["anna", "bert"].map(|name| Contender::new(name, &locks));
    tokio::try_join!(contenders[0].order(42), contenders[1].order(42))?;
    note("", "both are done", &lock_in_store(&locks).await?);
    Ok(())
}

struct Contender {
    name: &'static str,
    locks: Locks,
}

impl Contender {
    fn new(name: &'static str, locks: &Locks) -> Self {
        let locks = locks.clone();
        Self { name, locks }
    }

    /// The outermost call: waits for the lock.
    async fn order(&self, id: u32) -> Result<(), LockError> {
        self.step("wants the lock").await?;
        self.locks
            .with_lock(KEY, async {
                self.work("entered", 50).await?;
                self.payment(id).await?;
                self.parts(id, 1).await?;
                self.step("leaves").await
            })
            .await?
    }

    /// A helper that takes the lock itself, whether or not its caller holds it.
    #[locked("order:{id}", locks = self.locks)]
    async fn payment(&self, id: u32) -> Result<(), LockError> {
        self.work("nested function entered", 100).await?;
        self.step("nested function returns").await
    }

    /// The same by recursion; nothing is boxed by hand.
    #[locked("order:{id}", locks = self.locks)]
    async fn parts(&self, id: u32, deeper: u32) -> Result<(), LockError> {
        self.work("recursion entered", 75).await?;
        if deeper > 0 {
            self.parts(id, deeper - 1).await?;
        }
        self.step("recursion returns").await
    }

    async fn work(&self, step: &str, millis: u64) -> Result<(), LockError> {
        self.step(step).await?;
        sleep(Duration::from_millis(millis)).await;
        Ok(())
    }

    async fn step(&self, step: &str) -> Result<(), LockError> {
        note(self.name, step, &lock_in_store(&self.locks).await?);
        Ok(())
    }
}

/// The hash as it stands: field, depth, remaining lease, token.
async fn lock_in_store(locks: &Locks) -> Result<String, LockError> {
    let Some(info) = locks.inspect(KEY).await? else {
        return Ok("free".to_owned());
    };
    let left = info.remaining.unwrap_or_default().as_millis();
    let token = info
        .token
        .map_or_else(String::new, |token| token.to_string());
    let holders = info.holders.iter().map(|holder| {
        let (head, number) = (&holder.hold_id[..8], holder.hold_id.rsplit(':').next());
        format!(
            "{head}…:{} depth {}",
            number.unwrap_or_default(),
            holder.depth
        )
    });
    let holders = holders.collect::<Vec<_>>().join(", ");
    Ok(format!("{holders}, {left:>3} ms left, token {token}"))
}

fn note(who: &str, step: &str, lock: &str) {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    println!(
        "{:>5} ms  {who:<5}  {step:<25}  {lock}",
        START.elapsed().as_millis()
    );
}

/// Prints what the watchdog reports through `tracing`.
struct Renewals;

impl<S: Subscriber> Layer<S> for Renewals {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        if message.0 == "renewed" {
            note("", "the watchdog renews", "");
        }
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

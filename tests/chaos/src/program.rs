//! The program of one task of a worker: sections of every kind, one after the other, at random.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use reentry::{LockError, LockRequest, OnLost, held, locked};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::ledger::Outcome;
use crate::plan::{HOT, KEYS, LOCKS, permits};
use crate::section::{Client, Op, Section, Site};
use crate::shape::{BRIEF, Shape, index, millis};
use crate::support::dice::Dice;
use crate::{inside, several};

/// Runs until it is told to stop.
pub(crate) async fn run(client: Arc<Client>, mut dice: Dice, stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        let key = match dice.roll(13) {
            0..=4 => Some(index(&mut dice, HOT)),
            5..=8 => Some(index(&mut dice, LOCKS)),
            // The semaphore.
            9..=10 => Some(LOCKS),
            _ => None,
        };
        match key {
            Some(key) => turn(&client, &mut dice, key).await,
            None => several::turn(&client, &mut dice).await,
        }
        let idle = millis(&mut dice, 0, 25);
        sleep(idle).await;
    }
}

/// The last phase: this key once, however long it takes. Returns whether it got the lock.
pub(crate) async fn once(client: &Arc<Client>, key: &str) -> bool {
    let op = Op::begin(client, key, client.wait());
    let request = match permits(key) {
        Some(_) => shared(client, key),
        None => client.locks.lock(key),
    };
    let body = body(op.site(), BRIEF, client.mode.ttl);
    let result = request.run(body).await;
    op.end(&result);
    result.is_ok()
}

/// A reader's request, or one for a permit.
fn shared(client: &Client, key: &str) -> LockRequest {
    match permits(key) {
        Some(permits) => client.locks.semaphore(key, permits),
        None => client.locks.lock(key).read(),
    }
}

async fn turn(client: &Arc<Client>, dice: &mut Dice, index: usize) {
    let key = KEYS[index];
    let (mut ttl, wait) = (client.mode.ttl, client.wait());
    let takes_permit = permits(key).is_some();
    let shape = if takes_permit {
        Shape::of_permit(dice)
    } else {
        Shape::roll(dice, index)
    };
    let mut request = if takes_permit || dice.roll(5) < 2 {
        shared(client, key)
    } else {
        client.locks.lock(key)
    };
    if dice.roll(10) == 0 {
        ttl = client.topology.scale() * millis(dice, 600, 2_000);
        request = request.ttl(ttl);
    }
    if dice.roll(4) == 0 {
        request = request.on_lost(OnLost::KeepRunning);
    }
    match dice.roll(32) {
        0..=6 => plain(client, key, request, wait, shape, ttl).await,
        7..=9 => {
            let wait = millis(dice, 1, 60);
            plain(client, key, request.wait(wait), wait, shape, ttl).await;
        }
        10..=11 => attempt(client, key, request, shape, ttl).await,
        12..=13 => guard(client, key, request, shape, ttl).await,
        14..=15 => {
            let whole = plain(client, key, request, wait, shape, ttl);
            // It is dropped wherever it is by then.
            drop(timeout(millis(dice, 1, 120), whole).await);
        }
        16..=17 => {
            let (client, after) = (Arc::clone(client), millis(dice, 1, 120));
            let task = tokio::spawn(async move {
                plain(&client, key, request, wait, shape, ttl).await;
            });
            sleep(after).await;
            task.abort();
            drop(task.await);
        }
        18 => {
            let max_hold = millis(dice, 350, 450).max(ttl / 3);
            let (shape, request) = (shape.beyond(max_hold), request.max_hold(max_hold));
            plain(client, key, request, wait, shape, ttl).await;
        }
        19 => {
            let shape = shape.beyond_lease(ttl);
            let request = request.on_lost(OnLost::KeepRunning);
            plain(client, key, request, wait, shape, ttl).await;
        }
        20..=22 => {
            let op = Op::begin(client, key, client.wait());
            let levels = 1 + dice.roll(3);
            let result = recursive(op.site(), None, levels, key).await;
            op.end(&result);
        }
        // These are several readers that join together, and a writer behind them; or more callers than there are
        // permits.
        23..=24 => {
            let read = |shape| {
                let request = shared(client, key);
                plain(client, key, request, wait, shape, client.mode.ttl)
            };
            let write = plain(client, key, request, wait, BRIEF, ttl);
            tokio::join!(read(shape), read(BRIEF), read(BRIEF), write);
        }
        _ => plain(client, key, request, wait, BRIEF, ttl).await,
    }
}

async fn plain(
    client: &Arc<Client>,
    key: &str,
    request: LockRequest,
    patience: Duration,
    shape: Shape,
    ttl: Duration,
) {
    let op = Op::begin(client, key, patience);
    let body = body(op.site(), shape, ttl);
    let result = request.run(body).await;
    op.end(&result);
}

async fn attempt(
    client: &Arc<Client>,
    key: &str,
    request: LockRequest,
    shape: Shape,
    ttl: Duration,
) {
    let op = Op::begin(client, key, Duration::ZERO);
    match request.try_acquire().await {
        Ok(None) => op.end_as(Outcome::Busy),
        Err(error) => op.end::<()>(&Err(error)),
        Ok(Some(guard)) => {
            let inside = guard.scope(body(op.site(), shape, ttl)).await;
            let released = guard.release().await;
            // Only a loss concerns the section.
            let released = released.or_else(|error| match error.is_lost() {
                true => Err(error),
                false => Ok(()),
            });
            op.end(&inside.and(released));
        }
    }
}

/// A guard alone aborts nothing: the section continues after a loss.
async fn guard(client: &Arc<Client>, key: &str, request: LockRequest, shape: Shape, ttl: Duration) {
    let op = Op::begin(client, key, client.wait());
    match request.acquire().await {
        Err(error) => op.end::<()>(&Err(error)),
        Ok(guard) => {
            let longest = client.longest(shape, ttl);
            let section = Section::enter(op.site(), guard.held().clone(), longest);
            inside::steps(slice::from_ref(&section), shape).await;
            section.finish();
            drop(guard);
            op.end_as(Outcome::Done);
        }
    }
}

async fn body(site: Site, shape: Shape, ttl: Duration) {
    let Some(held) = held(&site.key) else {
        panic!("a body without its lock");
    };
    let longest = site.client.longest(shape, ttl);
    let mut section = Section::enter(site, held, longest);
    inside::steps(slice::from_ref(&section), shape).await;
    inside::levels(&mut section, shape).await;
    if let Some(other) = shape.other {
        let client = &section.site.client;
        let request = client.locks.lock(other).wait(shape.pause);
        let inside = plain(client, other, request, shape.pause, BRIEF, client.mode.ttl);
        // Boxed, because it has a body again.
        Box::pin(inside).await;
    }
    section.finish();
}

/// Uses the attribute, on a function that calls itself under the lock that it holds.
#[locked("{key}")]
async fn recursive(
    site: Site,
    outer: Option<Arc<Section>>,
    levels: u64,
    key: &str,
) -> Result<(), LockError> {
    let Some(held) = held(key) else {
        panic!("a body without its lock");
    };
    let Some(section) = outer else {
        let ttl = site.client.mode.ttl;
        let section = Arc::new(Section::enter(site.clone(), held, ttl));
        // A failure there is visible in the outermost entry too.
        drop(recursive(site, Some(Arc::clone(&section)), levels, key).await);
        if let Some(section) = Arc::into_inner(section) {
            section.finish();
        }
        return Ok(());
    };
    section.reentered();
    section.compare_depth().await;
    section.step();
    if levels > 1 {
        return recursive(site, Some(section), levels - 1, key).await;
    }
    Ok(())
}

//! The actions of a task with several keys that it acquires together.

use std::sync::Arc;
use std::time::Duration;

use reentry::{LockRequest, OnLost, held};
use tokio::time::timeout;

use crate::inside;
use crate::plan::{KEYS, LOCKS};
use crate::section::{Client, Op, Section, Site};
use crate::shape::{Shape, index, millis};
use crate::support::dice::Dice;

pub(crate) async fn turn(client: &Arc<Client>, dice: &mut Dice) {
    let keys = pick(dice);
    let (mut ttl, wait) = (client.mode.ttl, client.topology.wait_for_several());
    let shape = Shape::of_several(dice);
    let mut request = client.locks.lock_all(&keys).wait(wait);
    if dice.roll(3) == 0 {
        request = request.read();
    }
    if dice.roll(10) == 0 {
        ttl = client.topology.scale() * millis(dice, 600, 2_000);
        request = request.ttl(ttl);
    }
    if dice.roll(4) == 0 {
        request = request.on_lost(OnLost::KeepRunning);
    }
    match dice.roll(16) {
        0 => {
            let request = request.no_wait();
            plain(client, &keys, request, Duration::ZERO, shape, ttl).await;
        }
        1..=2 => {
            let wait = millis(dice, 1, 120);
            plain(client, &keys, request.wait(wait), wait, shape, ttl).await;
        }
        3..=4 => {
            let whole = plain(client, &keys, request, wait, shape, ttl);
            // It is dropped wherever it is by then.
            drop(timeout(millis(dice, 1, 200), whole).await);
        }
        5 => {
            let max_hold = millis(dice, 350, 450).max(ttl / 3);
            let (shape, request) = (shape.beyond(max_hold), request.max_hold(max_hold));
            plain(client, &keys, request, wait, shape, ttl).await;
        }
        6 => {
            let request = request.on_lost(OnLost::KeepRunning);
            let shape = shape.beyond_lease(ttl);
            plain(client, &keys, request, wait, shape, ttl).await;
        }
        _ => plain(client, &keys, request, wait, shape, ttl).await,
    }
}

/// Two or three locks, in any order.
fn pick(dice: &mut Dice) -> Vec<&'static str> {
    let mut left = KEYS[..LOCKS].to_vec();
    let count = 2 + dice.roll(2);
    (0..count)
        .map(|_| left.swap_remove(index(dice, left.len())))
        .collect()
}

async fn plain(
    client: &Arc<Client>,
    keys: &[&str],
    request: LockRequest,
    patience: Duration,
    shape: Shape,
    ttl: Duration,
) {
    let ops = Op::begin_all(client, keys, patience);
    let sites = ops.iter().map(Op::site).collect();
    let result = request.run(body(sites, shape, ttl)).await;
    for op in ops {
        op.end(&result);
    }
}

/// One section for each of the keys.
async fn body(sites: Vec<Site>, shape: Shape, ttl: Duration) {
    let mut sections: Vec<_> = sites
        .into_iter()
        .map(|site| match held(&site.key) {
            Some(held) => {
                let longest = site.client.longest(shape, ttl);
                Section::enter(site, held, longest)
            }
            None => panic!("a body without one of its locks"),
        })
        .collect();
    inside::steps(&sections, shape).await;
    if let Some(section) = sections.first_mut() {
        inside::levels(section, shape).await;
    }
    sections.into_iter().for_each(Section::finish);
}

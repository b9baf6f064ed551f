//! The faults between the workers and the server.
//!
//! Every worker has a separate proxy, so that one may be cut off while the others continue and acquire its locks.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use crate::fault::Kind;
use crate::schedule::Deck;
use crate::support::proxy::{Action, Cut, Direction, Proxy};

const SCRIPT: &[u8] = b"EVALSHA";
const MESSAGE: &[u8] = b"$7\r\nmessage\r\n";
const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

/// Causes the fault on all of these connections at the same time.
pub(super) async fn strike(ways: &[&Proxy], kind: Kind, deck: &mut Deck) {
    // This is longer than the response timeout, and often longer than a lease.
    let long = deck.millis(300, 3_000);
    let each = |work: fn(&Proxy)| ways.iter().for_each(|way| work(way));
    let hold = async |direction| {
        ways.iter().for_each(|way| way.hold(direction));
        sleep(long).await;
        ways.iter().for_each(|way| way.release(direction));
    };
    match kind {
        Kind::CutFin => cut(ways, Cut::Fin).await,
        Kind::CutReset => cut(ways, Cut::Reset).await,
        Kind::CutClients => {
            let cuts = ways.iter().map(|way| way.cut_clients(Cut::Reset));
            join_all(cuts).await;
        }
        Kind::HoldRequests => hold(Direction::ToServer).await,
        Kind::HoldAnswers => hold(Direction::ToClient).await,
        Kind::HoldOld => {
            // New connections overtake what was sent on these.
            each(|way| way.hold_present(Direction::ToServer));
            sleep(long).await;
            each(|way| way.release(Direction::ToServer));
        }
        Kind::Delay => {
            delay(ways, deck.millis(5, 90));
            sleep(long).await;
            delay(ways, Duration::ZERO);
        }
        Kind::SlowThenGone => {
            // Responses arrive late. Then none arrive for longer than any lease.
            delay(ways, deck.millis(30, 48));
            sleep(deck.millis(700, 1_500)).await;
            each(|way| BOTH.into_iter().for_each(|direction| way.hold(direction)));
            sleep(deck.millis(2_000, 2_500)).await;
            delay(ways, Duration::ZERO);
            each(|way| {
                BOTH.into_iter()
                    .for_each(|direction| way.release(direction))
            });
        }
        Kind::HalfOpen => {
            // The connections of the last time are released, or they would become too many.
            join_all(ways.iter().map(|way| way.cut_frozen())).await;
            each(Proxy::freeze_present);
            sleep(long).await;
        }
        Kind::Blackhole => {
            each(Proxy::blackhole);
            sleep(long).await;
            each(|way| {
                BOTH.into_iter()
                    .for_each(|direction| way.release(direction))
            });
            // The streams have gaps.
            cut(ways, Cut::Reset).await;
        }
        Kind::Refuse => {
            join_all(ways.iter().map(|way| way.refuse())).await;
            cut(ways, Cut::Fin).await;
            sleep(long).await;
            join_all(ways.iter().map(|way| way.accept())).await;
        }
        Kind::CutAnswers => {
            let action = Action::CutAtAnswer(Cut::Reset);
            some(ways, deck, Direction::ToServer, SCRIPT, action).await;
        }
        Kind::Twice => some(ways, deck, Direction::ToServer, SCRIPT, Action::Twice).await,
        _ => some(ways, deck, Direction::ToClient, MESSAGE, Action::Lose).await,
    }
}

async fn cut(ways: &[&Proxy], how: Cut) {
    join_all(ways.iter().map(|way| way.cut_all(how))).await;
}

fn delay(ways: &[&Proxy], by: Duration) {
    for way in ways {
        BOTH.into_iter()
            .for_each(|direction| way.delay(direction, by));
    }
}

/// The next few chunks of this kind that arrive in time.
async fn some(
    ways: &[&Proxy],
    deck: &mut Deck,
    direction: Direction,
    needle: &[u8],
    action: Action,
) {
    for way in ways {
        for _ in 0..=deck.dice.roll(20) {
            way.on_next(direction, needle, action);
        }
    }
    sleep(deck.millis(300, 1_000)).await;
    ways.iter().for_each(|way| way.clear_rules());
}

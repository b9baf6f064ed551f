//! The faults of one server, the only one or one of several primaries. Those of several are over before another node
//! replaces the primary.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::sleep;

use super::tell::{Told, insist, tell};
use crate::fault::{Kind, Target, key};
use crate::ground::Ground;
use crate::schedule::Deck;
use crate::support::server::RedisServer;

/// It is busy until its time is up, and for a bounded number of turns whatever the clock does.
const BUSY: &str = "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end \
                    local stop = now() + MILLIS \
                    for _ = 1, 20000000 do if now() >= stop then break end end";

/// `moving` is held while a slot moves, because a node without memory would reject its keys.
pub(super) async fn strike(
    ground: &Ground,
    moving: &Mutex<()>,
    kind: Kind,
    deck: &mut Deck,
) -> Target {
    let away = match ground {
        Ground::Server { .. } => deck.millis(200, 1_500),
        // This is less than the permitted silence of a node.
        _ => deck.millis(100, 700),
    };
    let number = deck.dice.roll(u64::from(u32::MAX));
    let primaries = ground.primaries().await;
    let Some(place) = usize::try_from(number)
        .unwrap_or(0)
        .checked_rem(primaries.len())
    else {
        return Target::None;
    };
    let nodes = ground.nodes();
    let node = &nodes[primaries[place]];
    match kind {
        Kind::KillCommands => kill(node, "normal", |client| client.contains(" cmd=eval")).await,
        Kind::KillInboxes => kill(node, "pubsub", |_| true).await,
        Kind::PauseAll => pause(node, away, "ALL").await,
        Kind::PauseWrites => pause(node, away, "WRITE").await,
        Kind::ScriptFlush => drop(tell(node, "SCRIPT FLUSH").await),
        Kind::SlowScript => {
            let script = BUSY.replace("MILLIS", &away.as_millis().to_string());
            tell(node, &format!("EVAL \"{script} return 1\" 0")).await;
        }
        Kind::Freeze => {
            node.pause();
            sleep(away).await;
            node.resume();
        }
        Kind::MemoryFull => {
            let Ok(_moving) = moving.try_lock() else {
                return Target::None;
            };
            tell(node, "CONFIG SET maxmemory 1").await;
            sleep(away).await;
            // This is done even if it is down, because a sentinel may have made it store this before.
            insist(node, "CONFIG SET maxmemory 0").await;
        }
        Kind::ReadOnly => {
            // No server listens on port 1.
            insist(node, "REPLICAOF 127.0.0.1 1").await;
            sleep(away).await;
            insist(node, "REPLICAOF NO ONE").await;
        }
        Kind::RestartWithData => {
            node.stop();
            sleep(away / 3).await;
            node.start_again().await;
        }
        Kind::RestartEmpty => node.restart_empty().await,
        Kind::FlushAll => {
            let keys = ground.keys_of(primaries[place]).await;
            return match tell(node, "FLUSHALL").await {
                Told::Refused => Target::None,
                Told::Answer(_) | Told::Silent => Target::Keys(keys),
            };
        }
        _ => {
            let key = key(number);
            let mut target = Target::None;
            for node in primaries {
                let told = tell(&nodes[node], &format!("DEL {key}")).await;
                if !matches!(told, Told::Refused) {
                    target = Target::Key(key);
                }
            }
            return target;
        }
    }
    Target::All
}

async fn pause(node: &RedisServer, time: Duration, whom: &str) {
    tell(node, &format!("CLIENT PAUSE {} {whom}", time.as_millis())).await;
    sleep(time).await;
}

/// Ends the connections of the library to which this applies.
async fn kill(node: &RedisServer, of_type: &str, is_meant: impl Fn(&str) -> bool) {
    let Told::Answer(clients) = tell(node, &format!("CLIENT LIST TYPE {of_type}")).await else {
        return;
    };
    for client in clients.lines().filter(|client| is_meant(client)) {
        let id = client.strip_prefix("id=").unwrap_or_default();
        let id = id.split(' ').next().unwrap_or_default();
        tell(node, &format!("CLIENT KILL ID {id}")).await;
    }
}

//! The faults of one of several primaries that are over before another node replaces it.

use tokio::sync::Mutex;
use tokio::time::sleep;

use super::server::busy;
use super::tell::{Told, insist, tell};
use crate::fault::{Kind, Target, key};
use crate::ground::Ground;
use crate::schedule::Deck;
use crate::support::server::RedisServer;

/// `moving` is held while a slot moves, because a node without memory would reject its keys.
pub(super) async fn strike(
    ground: &Ground,
    moving: &Mutex<()>,
    kind: Kind,
    deck: &mut Deck,
) -> Target {
    // This is less than the permitted silence of a node.
    let short = deck.millis(100, 700);
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
        Kind::PauseAll | Kind::PauseWrites => {
            let whom = match kind {
                Kind::PauseAll => "ALL",
                _ => "WRITE",
            };
            tell(node, &format!("CLIENT PAUSE {} {whom}", short.as_millis())).await;
            sleep(short).await;
        }
        Kind::ScriptFlush => drop(tell(node, "SCRIPT FLUSH").await),
        Kind::SlowScript => drop(tell(node, &busy(short)).await),
        Kind::MemoryFull => {
            let Ok(_moving) = moving.try_lock() else {
                return Target::None;
            };
            tell(node, "CONFIG SET maxmemory 1").await;
            sleep(short).await;
            // This is done even if it is down, because a sentinel may have made it store this before.
            insist(node, "CONFIG SET maxmemory 0").await;
        }
        Kind::FlushAll => {
            let keys = ground.keys_of(primaries[place]).await;
            let told = tell(node, "FLUSHALL").await;
            return match told {
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

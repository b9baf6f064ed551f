//! The faults of the server.

use std::time::Duration;

use tokio::time::sleep;

use crate::fault::{Kind, Target, key};
use crate::schedule::Deck;
use crate::support::server::RedisServer;

/// It is busy until its time is up, and for a bounded number of turns whatever the clock does.
const BUSY: &str = "local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end \
                    local stop = now() + MILLIS \
                    for _ = 1, 20000000 do if now() >= stop then break end end";

/// A command that keeps a server busy for this time.
pub(super) fn busy(time: Duration) -> String {
    let script = BUSY.replace("MILLIS", &time.as_millis().to_string());
    format!("EVAL \"{script} return 1\" 0")
}

pub(super) async fn strike(server: &RedisServer, kind: Kind, deck: &mut Deck) -> Target {
    let while_out = deck.millis(200, 1_500);
    match kind {
        Kind::KillCommands => drop(server.kill_command_connections().await),
        Kind::KillInboxes => drop(server.kill_inboxes().await),
        Kind::PauseAll | Kind::PauseWrites => {
            let whom = if kind == Kind::PauseAll {
                "ALL"
            } else {
                "WRITE"
            };
            let millis = while_out.as_millis();
            server.ask(&format!("CLIENT PAUSE {millis} {whom}")).await;
            sleep(while_out).await;
        }
        Kind::ScriptFlush => drop(server.ask("SCRIPT FLUSH").await),
        Kind::SlowScript => {
            server.ask(&busy(deck.millis(300, 2_000))).await;
        }
        Kind::Freeze => {
            server.pause();
            sleep(while_out).await;
            server.resume();
        }
        Kind::MemoryFull => {
            server.ask("CONFIG SET maxmemory 1").await;
            sleep(while_out).await;
            server.ask("CONFIG SET maxmemory 0").await;
        }
        Kind::ReadOnly => {
            // No server listens on port 1.
            server.ask("REPLICAOF 127.0.0.1 1").await;
            sleep(while_out).await;
            server.ask("REPLICAOF NO ONE").await;
        }
        Kind::RestartWithData => {
            server.stop();
            sleep(while_out / 3).await;
            server.start_again().await;
        }
        Kind::RestartEmpty => server.restart_empty().await,
        Kind::FlushAll => drop(server.ask("FLUSHALL").await),
        _ => {
            let key = key(deck.dice.roll(u64::from(u32::MAX)));
            server.ask(&format!("DEL {key}")).await;
            return Target::Key(key);
        }
    }
    Target::All
}

//! A password that is rotated repeatedly, while the connections that use it are cut.

use super::server::RedisServer;
use super::wait::{DEADLINE, eventually};
use reentry::credentials::{BasicAuth, StreamingCredentialsProvider, watched};
use reentry::{Held, Locks, LocksBuilder};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The user whose password is rotated.
const USER: &str = "app";

/// A TTL that is so short that a hold is renewed several times while passwords are rotated.
const TTL: Duration = Duration::from_secs(3);

/// A user of some servers, with a provider that knows its present password.
pub struct Rotation<'s> {
    nodes: Vec<&'s RedisServer>,
    newest: watch::Sender<BasicAuth>,
    number: u32,
}

impl<'s> Rotation<'s> {
    /// Creates the user on all servers.
    pub async fn begin(nodes: Vec<&'s RedisServer>) -> Rotation<'s> {
        for node in &nodes {
            let user = format!("ACL SETUSER {USER} on >{} ~* &* +@all", password(0));
            node.ask(&user).await;
        }
        let (newest, _) = watch::channel(auth(0));
        Rotation {
            nodes,
            newest,
            number: 0,
        }
    }

    pub fn provider(&self) -> impl StreamingCredentialsProvider + 'static {
        watched(self.newest.subscribe())
    }

    /// Replaces the password, and cuts all connections of the user. Both passwords are valid for a moment, as with real
    /// services.
    pub async fn rotate(&mut self) {
        let old = password(self.number);
        self.number += 1;
        let new = password(self.number);
        for node in &self.nodes {
            node.ask(&format!("ACL SETUSER {USER} >{new}")).await;
        }
        self.newest.send_replace(auth(self.number));
        for node in &self.nodes {
            node.ask(&format!("ACL SETUSER {USER} <{old}")).await;
            node.ask(&format!("CLIENT KILL USER {USER}")).await;
        }
    }

    /// Rotates the password this number of times. A hold that began before stays held, and locks are acquired in the
    /// meantime.
    pub async fn loses_no_hold(&mut self, builder: LocksBuilder, times: u32) {
        let builder = builder.credentials(self.provider()).ttl(TTL);
        let locks = builder.build().await.expect("the first password");
        let guard = locks.lock("held").acquire().await.expect("a lock");
        for turn in 0..times {
            self.rotate().await;
            until_renewed(guard.held()).await;
            works(&locks, turn).await;
        }
        assert!(!guard.held().is_lost());
        guard.release().await.expect("it is held");
    }
}

fn password(number: u32) -> String {
    format!("secret-{number}")
}

fn auth(number: u32) -> BasicAuth {
    BasicAuth::new(USER.to_owned(), password(number))
}

async fn until_renewed(held: &Held) {
    let deadline = || Instant::now() + held.remaining();
    let before = deadline();
    // A renewal lengthens the lease by about a third of the TTL. The two readings of the clock are less far apart.
    let is_renewed = async || deadline() > before + TTL / 10 || held.is_lost();
    eventually(DEADLINE, "the hold is renewed", is_renewed).await;
    assert!(!held.is_lost(), "{:?}", held.remaining());
}

async fn works(locks: &Locks, turn: u32) {
    let entered = locks
        .with_lock(format!("order:{turn}"), async { turn })
        .await;
    assert_eq!(entered.expect("a lock"), turn);
}

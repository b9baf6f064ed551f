//! Three processes at one lock: one that holds it, one whose waiter leaves, and one that waits too.

use super::proxy::Proxy;
use super::rig::KEY;
use super::server::RedisServer;
use super::sweep::RENEWALS;
use super::turns::{Turns, processes, unhurried};
use super::wait::{DEADLINE, eventually};
use reentry::{LockGuard, Locks};
use std::future::poll_fn;
use tokio::runtime::Handle;

/// Three processes at one lock; the leases outlast the test, and the heartbeats as well.
#[derive(Debug)]
pub struct Trio {
    /// The server.
    pub server: RedisServer,
    /// The proxy in front of the server, for `leaving`.
    pub proxy: Proxy,
    /// The process that holds the lock at first.
    pub holder: Locks,
    /// The process whose waiter leaves. It talks to the server through the proxy.
    pub leaving: Locks,
    /// The process with the other waiter.
    pub next: Locks,
    /// The turns of the waiters that stay.
    pub turns: Turns,
    /// The tasks of the runtime when nothing is under way.
    tasks: usize,
}

fn alive() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

impl Trio {
    /// Starts the server, the proxy and the three processes.
    pub async fn start() -> Trio {
        let server = RedisServer::start().await;
        let proxy = Proxy::start(server.port());
        let [holder, next] = processes(&unhurried(&server)).await;
        let [leaving] = processes(&unhurried(&server).url(proxy.url())).await;
        Trio {
            server,
            proxy,
            holder,
            leaving,
            next,
            turns: Turns::default(),
            tasks: alive(),
        }
    }

    /// Adds a caller behind the waiter that leaves: in the same process or in another one.
    pub async fn next_one(&mut self, local: bool) {
        let name = if local { "local" } else { "elsewhere" };
        let locks = if local { &self.leaving } else { &self.next };
        self.turns.come(locks, name).await;
    }

    /// Waits until every other waiter has entered, and then nothing is left. Each open inbox has two tasks, and some
    /// seconds to live.
    pub async fn settle(&mut self, what: &str) {
        self.turns.all().await;
        let empty = async || self.server.ask("DBSIZE").await == "0";
        eventually(DEADLINE, &format!("no key is left: {what}"), empty).await;
        let ended = async || {
            // The first check, since the other request has a connection of its own for a moment.
            let alive = alive();
            let inboxes = self.server.subscriptions().await.len();
            // Each of the three processes has one task for its renewals.
            alive <= self.tasks + 2 * inboxes + 3 * RENEWALS
        };
        eventually(DEADLINE, &format!("no task is left: {what}"), ended).await;
        for locks in [&self.holder, &self.leaving, &self.next] {
            let guard = locks.lock(KEY).try_acquire().await.expect(what);
            guard.expect(what).release().await.expect(what);
        }
    }
}

/// The waiter. Its poll number `moment` starts the holder's release.
pub async fn released_at<T>(
    moment: usize,
    holder: LockGuard,
    waiter: impl Future<Output = T>,
) -> T {
    let mut holder = Some(holder);
    let mut polls = 0;
    let mut waiter = Box::pin(waiter);
    poll_fn(|cx| {
        polls += 1;
        let polled = waiter.as_mut().poll(cx);
        if polls == moment {
            drop(holder.take().map(|guard| tokio::spawn(guard.release())));
        } else if polls < moment {
            // Nothing wakes the waiter before.
            cx.waker().wake_by_ref();
        }
        polled
    })
    .await
}

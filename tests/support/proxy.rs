//! A TCP proxy in front of a server, which loses, holds back and delays what passes through it.
//!
//! ```text
//! client ── ToServer ──▶ proxy ── ToServer ──▶ server
//!        ◀── ToClient ──       ◀── ToClient ──
//! ```
//!
//! Bytes are handled in *chunks*: a chunk is what one read returned. A small request or response arrives in one chunk.
//! A client that pipelines may put several of them into one. The proxy runs on a thread of its own, and continues while
//! the test's runtime is blocked or gone.

mod pump;
mod state;

pub use state::{Action, Cut, Direction};

use super::ports::Port;
use super::wait::{DEADLINE, within};
use state::{Link, Mode, Rule, Side, State};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// A proxy on a port of its own. It stops on drop, which closes every connection.
#[derive(Debug)]
pub struct Proxy {
    state: Arc<watch::Sender<State>>,
    thread: Option<JoinHandle<()>>,
    port: Port,
}

impl Proxy {
    /// Starts a proxy for the server on this port of 127.0.0.1. The server may still be down.
    pub fn start(target: u16) -> Proxy {
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, target));
        let state = Arc::new(watch::Sender::new(State::default()));
        for _ in 0..10 {
            let port = Port::reserve();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number));
            let Ok(listener) = std::net::TcpListener::bind(address) else {
                continue;
            };
            listener
                .set_nonblocking(true)
                .expect("a listener for tokio");
            let shared = Arc::clone(&state);
            let thread = std::thread::spawn(move || pump::run(&shared, listener, target));
            return Proxy {
                state,
                thread: Some(thread),
                port,
            };
        }
        panic!("the proxy found ten addresses in use");
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Holds back everything in this direction from now on, on every connection, including new ones and the end of a
    /// connection.
    ///
    /// Held requests outlive their client. If the client has hung up or was cut off by
    /// [`cut_clients`](Self::cut_clients), a [`release`](Self::release) still delivers them.
    pub fn hold(&self, direction: Direction) {
        self.set_mode(direction, Mode::Hold);
    }

    /// Holds back everything on the present connections. Later connections are not affected.
    pub fn hold_present(&self, direction: Direction) {
        self.state.send_modify(|state| {
            for link in state.links.values_mut() {
                link.held[direction] = true;
            }
        });
    }

    /// Delivers what was held in this direction, in order, and holds nothing back any longer.
    pub fn release(&self, direction: Direction) {
        self.state.send_modify(|state| {
            state.modes[direction] = Mode::Pass;
            for link in state.links.values_mut() {
                link.held[direction] = false;
            }
        });
    }

    /// Delivers everything this much later than it arrived. Zero ends the delay.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.state.send_modify(|state| state.delays[direction] = by);
    }

    /// From now on connections are accepted and stay open, but nothing is forwarded in either direction. Everything
    /// that arrives is lost, and no end of a connection is reported to the other side.
    ///
    /// [`heal`](Self::heal) or a cut ends this, because the streams have gaps.
    pub fn blackhole(&self) {
        self.set_mode(Direction::ToServer, Mode::Lose);
        self.set_mode(Direction::ToClient, Mode::Lose);
    }

    /// From now on nothing is forwarded in either direction on the present connections, and the end of one is not
    /// reported to the other side. This is like a machine that has vanished. Later connections are not affected.
    ///
    /// They remain so until [`cut_frozen`](Self::cut_frozen). No other cut affects them.
    pub fn freeze_present(&self) {
        self.state
            .send_modify(|state| state.links.values_mut().for_each(Link::freeze));
    }

    /// Resets the connections that were frozen.
    pub async fn cut_frozen(&self) {
        self.cut_if(
            |link| link.frozen,
            &[Side::Client, Side::Server],
            Cut::Reset,
        )
        .await;
    }

    /// Ends all holding, losing, delaying and refusing, and removes all rules.
    pub async fn heal(&self) {
        self.clear_rules();
        for direction in [Direction::ToServer, Direction::ToClient] {
            self.release(direction);
            self.delay(direction, Duration::ZERO);
        }
        self.accept().await;
    }

    /// Refuses new connections (the listener is closed). Present ones continue.
    pub async fn refuse(&self) {
        self.state.send_modify(|state| state.refusing = true);
        self.until("the proxy refuses", |state| !state.listening)
            .await;
    }

    /// Accepts new connections again.
    pub async fn accept(&self) {
        self.state.send_modify(|state| state.refusing = false);
        self.until("the proxy accepts", |state| state.listening)
            .await;
    }

    /// Ends every connection on both sides. What was held or in flight is lost.
    pub async fn cut_all(&self, how: Cut) {
        self.cut(&[Side::Client, Side::Server], how).await;
    }

    /// Ends every connection on the client's side only. The server still gets what the client had sent, as soon as it
    /// is not held, and then the end of the connection.
    pub async fn cut_clients(&self, how: Cut) {
        self.cut(&[Side::Client], how).await;
    }

    /// Applies `action` once, to the next chunk in this direction that contains `needle`.
    ///
    /// Redis commands are sent in capitals, so `b"EVALSHA"` finds every script call, and a key's name finds the calls
    /// for that key. Of several rules that match, the oldest applies.
    pub fn on_next(&self, direction: Direction, needle: &[u8], action: Action) {
        self.add_rule(direction, needle, action, true);
    }

    /// Applies `action` to every chunk in this direction that contains `needle`.
    pub fn on_every(&self, direction: Direction, needle: &[u8], action: Action) {
        self.add_rule(direction, needle, action, false);
    }

    /// Forgets all rules.
    pub fn clear_rules(&self) {
        self.state.send_modify(|state| state.rules.clear());
    }

    /// The chunks that a rule with [`Action::Record`] has forwarded.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        self.state.borrow().recorded.clone()
    }

    /// The number of connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.state.borrow().accepted
    }

    /// The number of times that a rule has been applied.
    pub fn hits(&self) -> u64 {
        self.state.borrow().hits
    }

    /// Waits until rules have been applied at least `count` times.
    pub async fn wait_for_hits(&self, count: u64) {
        let what = format!("rules of the proxy act {count} times");
        self.until(&what, |state| state.hits >= count).await;
    }

    /// Waits until bytes that contain `needle` are held back in this direction.
    pub async fn wait_until_held(&self, direction: Direction, needle: &[u8]) {
        let what = format!(
            "{:?} is held {direction:?}",
            needle.escape_ascii().to_string()
        );
        self.until(&what, |state| state.holds(direction, needle))
            .await;
    }

    fn set_mode(&self, direction: Direction, mode: Mode) {
        self.state
            .send_modify(|state| state.modes[direction] = mode);
    }

    fn add_rule(&self, direction: Direction, needle: &[u8], action: Action, once: bool) {
        let needle = needle.to_vec();
        let rule = Rule {
            direction,
            needle,
            action,
            once,
        };
        self.state.send_modify(|state| state.rules.push(rule));
    }

    async fn cut(&self, sides: &[Side], how: Cut) {
        self.cut_if(|link| !link.frozen, sides, how).await;
    }

    async fn cut_if(&self, which: impl Fn(&Link) -> bool, sides: &[Side], how: Cut) {
        self.state.send_modify(|state| {
            for link in state.links.values_mut().filter(|link| which(link)) {
                link.cut(sides, how);
            }
        });
        let closed = |state: &State| state.links.values().all(Link::cuts_are_done);
        self.until("the proxy has closed what was cut", closed)
            .await;
    }

    async fn until(&self, what: &str, condition: impl FnMut(&State) -> bool) {
        let mut state = self.state.subscribe();
        within(DEADLINE, what, async {
            state.wait_for(condition).await.map(drop)
        })
        .await
        .expect("a running proxy");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.stopped = true);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the proxy has panicked");
        }
    }
}

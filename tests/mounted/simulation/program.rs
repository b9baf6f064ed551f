//! What a task does with the locks: everything that a caller can do, at random.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::climate::{Climate, millis, one_in};
use super::ledger::{Inside, Ledger, Wish};
use super::link::Link;
use super::server::Server;
use crate::support::sweep::poll_at_most;
use crate::{LockError, LockGuard, LockRequest, Locks, OnLost, held};

mod members;
mod nested;
mod readers;

/// The locks. They are acquired together only in this order, which is that of `lock_all`.
pub(super) const KEYS: [&str; 2] = ["order:2", "order:1"];

#[derive(Clone)]
pub(super) struct Program {
    pub(super) process: usize,
    pub(super) locks: Locks,
    pub(super) server: Arc<Server>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) climate: Climate,
    pub(super) ttl: Duration,
    pub(super) link: Link,
    pub(super) heartbeat: Duration,
    /// The percentage of requests that are those of readers.
    pub(super) reads: u32,
    /// The instant from which on nothing more is begun.
    pub(super) end: Instant,
}

impl Program {
    pub(super) async fn run(self) {
        while Instant::now() < self.end && !self.ledger.has_failed() {
            sleep(millis(0..=300)).await;
            self.act().await;
        }
    }

    async fn act(&self) {
        let key = KEYS[fastrand::usize(0..KEYS.len())];
        // A waiter that leaves early may have been granted the lock. That costs the next one time.
        let choices = if self.climate.is_prompt() { 11 } else { 18 };
        match fastrand::u32(0..choices) {
            0 => self.nest(key).await,
            1 => self.branch(key).await,
            2 => self.guard(key).await,
            3 => self.both().await,
            4 => self.keep_running(key).await,
            5 => self.panic(key).await,
            6 => self.limited(key).await,
            7 => self.leave_work(key).await,
            8 => self.read(key).await,
            9 => self.read_together(key).await,
            10 | 11 => self.ended(key, self.section(key, self.request(key)).await),
            12 => self.try_it(key).await,
            13 => {
                let request = self.request(key).wait(millis(1..=3_000));
                self.ended(key, self.section(key, request).await);
            }
            14 => {
                // It is dropped wherever it is by then.
                let section = self.section(key, self.request(key));
                if let Ok(ended) = timeout(millis(0..=1_500), section).await {
                    self.ended(key, ended);
                }
            }
            15 => self.give_up(key).await,
            // One lock is acquired before it is entered, while the caller waits for the other.
            _ => self.several().await,
        }
    }

    fn request(&self, key: &str) -> LockRequest {
        let request = self.moded(key);
        if self.climate.answers() || one_in(2) {
            request.wait(Duration::MAX)
        } else {
            request
        }
    }

    /// The request of a reader or of a writer.
    fn moded(&self, key: &str) -> LockRequest {
        let request = self.locks.lock(key);
        if fastrand::u32(0..100) < self.reads {
            request.read()
        } else {
            request
        }
    }

    /// The instant before the request.
    fn wish(&self) -> Wish {
        // This is the round trip. Waiters without messages also need a heartbeat until their request, and P9 allows for
        // another one.
        let way = Duration::from_millis(50);
        let longest_pause = Duration::from_millis(100);
        let Climate {
            messages, flaps, ..
        } = self.climate;
        let receives = self.link.receives();
        let delay = if receives && !messages && !flaps {
            way
        } else if (receives || self.link.is_broken()) && !messages {
            // It sends a request by itself as soon as it knows that no message arrives.
            longest_pause + way
        } else {
            2 * self.heartbeat + way
        };
        let since = Instant::now();
        Wish {
            since,
            delay: Some(delay),
            on_lost: OnLost::Abort,
        }
    }

    /// Called from inside the body.
    fn enter(&self, key: &str, wish: Wish) -> Inside {
        let held = held(key).expect("the body runs under its lock");
        self.ledger.enter(self.process, &held, wish)
    }

    /// Stays inside for a while, now and then for longer than the lease.
    async fn stay(&self, inside: &Inside) {
        let longest = u64::try_from(self.ttl.as_millis()).expect("a short lease");
        let longest = if one_in(10) { 2 * longest } else { longest / 5 };
        for _ in 0..fastrand::u32(1..4) {
            sleep(millis(0..=longest.min(3_000))).await;
            inside.step();
        }
    }

    async fn section(&self, key: &str, request: LockRequest) -> Result<(), LockError> {
        self.section_of(key, request, self.wish()).await
    }

    async fn section_of(
        &self,
        key: &str,
        request: LockRequest,
        wish: Wish,
    ) -> Result<(), LockError> {
        let (mut has_ended, mut was_valid) = (false, false);
        let ended = request
            .run(async {
                let inside = self.enter(key, wish);
                self.stay(&inside).await;
                has_ended = true;
                was_valid = inside.is_valid();
            })
            .await;
        // Only a loss masks the output of a body, and not a loss after its end (P13).
        let stands = match &ended {
            Ok(()) => true,
            Err(LockError::Lost { .. }) => !was_valid || !self.climate.keeps_holds(),
            Err(_) => !has_ended,
        };
        if !stands {
            self.ledger
                .violation(format_args!("{key}: an output is masked: {ended:?}"));
        }
        ended
    }

    /// Notes how a request ended. Only an outcome that the climate explains is accepted.
    fn ended(&self, key: &str, result: Result<(), LockError>) {
        match result {
            Ok(()) => {}
            Err(LockError::Lost { reason, .. }) => {
                self.ledger.lost(self.process, key, reason);
            }
            Err(error) => {
                let process = self.process;
                self.ledger.note_error(process, &error);
                let fine = match &error {
                    LockError::Busy { .. } => true,
                    // The wait may be shorter than the way to the store and back.
                    LockError::Unavailable { source, .. } => {
                        let cause = source.source().map(ToString::to_string);
                        !self.climate.answers() || cause.is_some_and(|it| it == "no answer yet")
                    }
                    _ => false,
                };
                if !fine {
                    self.ledger.violation(error);
                }
            }
        }
    }

    async fn guard(&self, key: &str) {
        let wish = self.wish();
        let guard: LockGuard = match self.request(key).await {
            Ok(guard) => guard,
            Err(error) => return self.ended(key, Err(error)),
        };
        let inside = self.ledger.enter(self.process, guard.held(), wish);
        let scope = guard.scope(async {
            self.again(key).run(self.stay(&inside)).await?;
            self.stay(&inside).await;
            Ok(())
        });
        let ended = scope.await;
        drop(inside);
        self.ended(key, ended.and_then(|inner| inner));
        if one_in(2) {
            // It was found lost before, or just now.
            if let Err(LockError::Lost { reason, .. }) = guard.release().await {
                self.ledger.lost(self.process, key, reason);
            }
        }
    }

    /// Both locks, one under the other.
    async fn both(&self) {
        let [one, other] = KEYS;
        let wish = self.wish();
        let body = async {
            let inside = self.enter(one, wish);
            let ended = self.section(other, self.request(other)).await;
            inside.step();
            ended
        };
        let ended = self.request(one).run(body).await;
        self.ended(one, ended.and_then(|inner| inner));
    }

    /// Both locks together.
    async fn several(&self) {
        let wish = self.wish();
        let request = self.locks.lock_all(KEYS);
        let request = if self.climate.answers() || one_in(2) {
            request.wait(Duration::MAX)
        } else {
            request
        };
        let body = async {
            let [one, other] = KEYS.map(|key| self.enter(key, wish));
            self.stay(&one).await;
            other.step();
        };
        let ended = request.run(body).await;
        let lost = ended.as_ref().err().and_then(LockError::key);
        let key = KEYS.into_iter().find(|key| lost == Some(*key));
        self.ended(key.unwrap_or_default(), ended);
    }

    /// Continues after a loss, and writes.
    async fn keep_running(&self, key: &str) {
        let on_lost = OnLost::KeepRunning;
        let wish = Wish {
            on_lost,
            ..self.wish()
        };
        let request = self.request(key).on_lost(on_lost);
        let ended = self.section_of(key, request, wish).await;
        self.ended(key, ended);
    }

    async fn limited(&self, key: &str) {
        let request = self.request(key).max_hold(self.ttl / 2);
        let ended = self.section(key, request).await;
        self.ended(key, ended);
    }

    async fn panic(&self, key: &str) {
        let (program, key) = (self.clone(), key.to_owned());
        let panics = async move {
            let wish = program.wish();
            let body = async {
                let inside = program.enter(&key, wish);
                program.stay(&inside).await;
                // The hook that would print it is removed.
                std::panic::resume_unwind(Box::new("a body that panics"));
            };
            program.request(&key).run(body).await
        };
        // An error has the same effect as a panic here, and a lost lock is lost.
        let _ = tokio::spawn(panics).await;
    }

    async fn try_it(&self, key: &str) {
        // Nothing ends code that runs next to a guard and not in its scope.
        let wish = Wish {
            on_lost: OnLost::KeepRunning,
            ..self.wish()
        };
        match self.moded(key).try_acquire().await {
            Ok(Some(guard)) => {
                let inside = self.ledger.enter(self.process, guard.held(), wish);
                self.stay(&inside).await;
                drop(inside);
                drop(guard);
            }
            Ok(None) => {}
            Err(error) => self.ended(key, Err(error)),
        }
    }

    /// Drops it after some polls.
    async fn give_up(&self, key: &str) {
        let section = self.section(key, self.request(key));
        if let Some(ended) = poll_at_most(fastrand::usize(1..20), section, || ()).await {
            self.ended(key, ended);
        }
    }
}

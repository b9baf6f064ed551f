//! A process: a `Locks` of its own with options of its own, some tasks that use it, and its connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::climate::{Climate, one_in};
use super::ledger::Ledger;
use super::link::Link;
use super::program::Program;
use super::server::Server;
use crate::Locks;

const MAX_TASKS: usize = 4;

/// The state that all processes of a run share.
#[derive(Clone)]
pub(super) struct World {
    pub(super) climate: Climate,
    pub(super) server: Arc<Server>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) heartbeat: Duration,
    /// The instant from which on nothing more is begun.
    pub(super) end: Instant,
}

#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    pub(super) link: Link,
    locks: Locks,
    tasks: JoinSet<()>,
}

fn one_of<T: Copy>(all: &[T]) -> T {
    all[fastrand::usize(0..all.len())]
}

impl Process {
    pub(super) fn start(number: usize, world: &World) -> Self {
        let &World {
            climate,
            ref server,
            ref ledger,
            heartbeat,
            end,
        } = world;
        let ms = Duration::from_millis;
        let ttl = one_of(&[ms(300), ms(1_000), ms(5_000), ms(30_000)]);
        let response_timeout = one_of(&[ms(200), ms(1_000)]);
        let link = Link::new(server, ledger, climate, response_timeout);
        let has_messages = !one_in(5);
        if !has_messages {
            link.refuse_messages();
        }
        let locks = Locks::builder("memory:")
            .ttl(ttl)
            .__heartbeat(heartbeat)
            .grace(one_of(&[Duration::ZERO, ttl / 12]))
            .turns(one_of(&[0, 1, 3, 16]))
            .build_on_wire(Arc::new(link.clone()), response_timeout);
        let reads = one_of(&[0, 20, 50, 90]);
        ledger.note(format_args!("p{number}: {ttl:?} {has_messages} {reads}"));
        let mut tasks = JoinSet::new();
        for _ in 0..fastrand::usize(1..=MAX_TASKS) {
            let program = Program {
                process: number,
                locks: locks.clone(),
                server: Arc::clone(server),
                ledger: Arc::clone(ledger),
                climate,
                ttl,
                link: link.clone(),
                heartbeat,
                reads,
                end,
            };
            tasks.spawn(program.run());
        }
        Self {
            number,
            link,
            locks,
            tasks,
        }
    }

    /// Kills the process as SIGKILL does: nothing leaves it any more, and requests in flight may still arrive.
    pub(super) fn kill(mut self, ledger: &Ledger) {
        ledger.note(format_args!("p{} is killed", self.number));
        self.link.kill();
        ledger.killed(self.number);
        self.tasks.abort_all();
    }

    /// Waits until all its tasks have ended, and their work in the background.
    pub(super) async fn ended(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a task that does not panic");
        }
        self.locks.close(Duration::MAX).await;
    }

    /// Some of its connections end.
    pub(super) fn cut(&self, ledger: &Ledger) {
        let (commands, inbox) = (!one_in(3), one_in(2));
        ledger.note(format_args!("p{} is cut: {commands} {inbox}", self.number));
        self.link.cut(commands, inbox);
    }
}

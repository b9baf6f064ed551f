//! How each kind of fault is made, and undone.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::clock;
use crate::crew::Crew;
use crate::fault::{Fault, Kind, Lane, Target};
use crate::plan::WORKERS;
use crate::schedule::Deck;
use crate::support::proxy::Proxy;
use crate::support::server::RedisServer;

mod network;
mod processes;
mod server;

/// What faults are made on.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    /// The way of each worker to the server.
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) crew: Mutex<Crew>,
}

impl Stage {
    /// Makes one fault, waits, and undoes it.
    pub(crate) async fn strike(&self, kind: Kind, deck: &mut Deck) -> Result<Fault> {
        let start = clock::now();
        let target = match kind.lane() {
            Lane::Processes => processes::strike(&self.crew, kind, deck).await?,
            Lane::Network => self.disturb(kind, deck).await,
            Lane::Server => server::strike(&self.server, kind, deck).await,
        };
        let end = clock::now();
        Ok(Fault {
            kind,
            start,
            end,
            target,
        })
    }

    /// A fault of the network, on the way of one worker or of all.
    async fn disturb(&self, kind: Kind, deck: &mut Deck) -> Target {
        let slot = usize::try_from(deck.dice.roll(WORKERS as u64 + 2)).unwrap_or(WORKERS);
        if let Some(way) = self.proxies.get(slot) {
            let name = self.crew().name(slot);
            network::strike(&[way], kind, deck).await;
            return Target::Worker(name);
        }
        let all: Vec<_> = self.proxies.iter().collect();
        network::strike(&all, kind, deck).await;
        Target::All
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

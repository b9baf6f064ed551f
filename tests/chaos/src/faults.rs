//! The causing and undoing of each kind of fault.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::sync::Mutex as Gate;

use crate::clock;
use crate::crew::Crew;
use crate::fault::{Fault, Kind, Lane, Target};
use crate::ground::Ground;
use crate::plan::WORKERS;
use crate::schedule::Deck;
use crate::support::proxy::Proxy;

mod network;
mod nodes;
mod processes;
mod sentinels;
mod server;
mod slots;
pub(crate) mod tell;

/// The servers and processes on which faults are caused.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) ground: Ground,
    pub(crate) crew: Mutex<Crew>,
    /// Held while a slot moves.
    moving: Gate<()>,
    /// The instant at which all nodes were last healthy, and their primaries at that instant.
    settled: Gate<(u64, String)>,
}

impl Stage {
    pub(crate) async fn new(ground: Ground, crew: Crew) -> Stage {
        let settled = (clock::now(), ground.signature().await);
        Stage {
            ground,
            crew: Mutex::new(crew),
            moving: Gate::default(),
            settled: Gate::new(settled),
        }
    }

    /// Causes one fault, waits, and undoes it. There may have been another one that was not asked for.
    pub(crate) async fn strike(&self, kind: Kind, deck: &mut Deck) -> Result<Vec<Fault>> {
        if kind.lane() == Lane::Nodes {
            return Ok(self.strike_node(kind, deck).await);
        }
        let start = clock::now();
        let target = match (kind.lane(), &self.ground) {
            (Lane::Processes, _) => processes::strike(&self.crew, kind, deck).await?,
            (Lane::Network, Ground::Server { proxies, .. }) => {
                self.disturb(proxies, kind, deck).await
            }
            _ => server::strike(&self.ground, &self.moving, kind, deck).await,
        };
        Ok(vec![Fault::new(kind, start, target)])
    }

    async fn strike_node(&self, kind: Kind, deck: &mut Deck) -> Vec<Fault> {
        let mut faults = self.unasked().await;
        let _moving = match kind {
            Kind::SlotMoved => Some(self.moving.lock().await),
            _ => None,
        };
        let start = clock::now();
        let struck = nodes::strike(&self.ground, kind, deck).await;
        let fault = Fault::new(kind, start, struck.target);
        if kind.fails_over() {
            *self.settled.lock().await = (fault.end, self.ground.signature().await);
        } else {
            faults.extend(self.unasked().await);
        }
        faults.push(Fault {
            over: struck.over.unwrap_or(fault.end),
            forgets: struck.forgets,
            note: struck.note,
            ..fault
        });
        faults
    }

    /// A failover since the nodes were last healthy.
    pub(crate) async fn unasked(&self) -> Vec<Fault> {
        let mut settled = self.settled.lock().await;
        let now = self.ground.signature().await;
        let (since, before) = std::mem::replace(&mut *settled, (clock::now(), now.clone()));
        if before == now {
            return Vec::new();
        }
        let fault = Fault::new(Kind::Unasked, since, Target::All);
        vec![Fault {
            forgets: vec![(since, fault.end)],
            note: format!("{before} -> {now}"),
            ..fault
        }]
    }

    /// A fault of the network, between the server and one worker or all of them.
    async fn disturb(&self, proxies: &[Proxy], kind: Kind, deck: &mut Deck) -> Target {
        let slot = usize::try_from(deck.dice.roll(WORKERS as u64 + 2)).unwrap_or(WORKERS);
        if let Some(way) = proxies.get(slot) {
            let name = self.crew().name(slot);
            network::strike(&[way], kind, deck).await;
            return Target::Worker(name);
        }
        let all: Vec<_> = proxies.iter().collect();
        network::strike(&all, kind, deck).await;
        Target::All
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

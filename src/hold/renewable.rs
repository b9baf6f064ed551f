//! The holds that are renewed together: one hold, those of one acquisition, or readers of one key. One hold is several of
//! length one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::base::error::{LostReason, StoreError};
use crate::base::events;
use crate::base::option_types::Mode;
use crate::hold::hold::Hold;
use crate::store::{Keep, MOST_TOGETHER, Renew, Store};

/// The holds that are renewed together.
#[derive(Clone, Debug)]
pub(super) struct Renewable(pub(super) Vec<Arc<Hold>>);

/// One request for the leases of holds, or as many as it takes where one cannot be about all of them.
#[derive(Debug)]
pub(super) struct RenewRequest {
    /// An instant before it is sent.
    pub(super) sent: Instant,
    ttl: Duration,
    holds: Vec<Asked>,
}

/// A hold that is asked for, and what was known before.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) hold: Arc<Hold>,
    mode: Mode,
    disconnects: u64,
    /// The epoch of the connection.
    pub(super) epoch: u64,
}

/// What the store has said of the holds. Those that are in neither list come after one that is gone: nothing is known of
/// them.
#[derive(Debug, Default)]
pub(super) struct RenewReply {
    pub(super) renewed: Vec<Asked>,
    gone: Vec<Asked>,
}

impl Renewable {
    /// Leaves out the holds that have ended or are lost.
    pub(super) fn retain_held(&mut self) {
        self.0
            .retain(|hold| hold.depth() > 0 && hold.lost().is_none());
    }

    /// When the first lease ends unless it is renewed.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.iter().map(|hold| hold.deadline()).min()
    }

    /// Whether there is a connection for each of them.
    pub(super) fn is_connected(&self, store: &Store) -> bool {
        self.0.iter().all(|hold| store.is_connected(hold.key()))
    }

    /// Resolves when all have ended.
    pub(super) async fn until_ended(&self) {
        for hold in &self.0 {
            hold.until_ended().await;
        }
    }
}

impl RenewRequest {
    /// Asks for the longest lease that any of the holds wants. All of them ask for it from now on: a request about one of
    /// them must not ask for less than one about all that may be executed later.
    pub(super) fn new(holds: &[Arc<Hold>], store: &Store) -> Self {
        let ttls = holds.iter().map(|hold| hold.ttl());
        let ttl = ttls.max().unwrap_or_default();
        let asked = holds.iter().map(|hold| {
            hold.raise_ttl(ttl);
            Asked {
                hold: Arc::clone(hold),
                mode: hold.mode(),
                disconnects: store.disconnects_of(hold.key()),
                epoch: store.connection_epoch(hold.key()),
            }
        });
        let mut holds: Vec<_> = asked.collect();
        holds.sort_by_key(|asked| asked.mode == Mode::Shared);
        Self {
            sent: Instant::now(),
            ttl,
            holds,
        }
    }

    /// Whether a connection was lost since.
    pub(super) fn is_cut(&self, store: &Store) -> bool {
        let mut holds = self.holds.iter();
        holds.any(|asked| asked.disconnects != store.disconnects_of(asked.hold.key()))
    }

    pub(super) async fn send(&self, store: &Store) -> Result<RenewReply, StoreError> {
        let runs = self.holds.chunk_by(|one, other| {
            let (key, next) = (one.hold.key(), other.hold.key());
            one.mode == other.mode
                && match one.mode {
                    Mode::Exclusive => store.spans(key, next),
                    Mode::Shared => key == next,
                }
        });
        let requests = runs.flat_map(|run| match run {
            [Asked { mode, .. }, ..] if *mode == Mode::Exclusive => run.chunks(MOST_TOGETHER),
            readers => readers.chunks(readers.len()),
        });
        let replies = try_join_all(requests.map(|run| self.send_run(run, store))).await?;
        let all = replies.into_iter().reduce(|mut all, reply| {
            all.renewed.extend(reply.renewed);
            all.gone.extend(reply.gone);
            all
        });
        Ok(all.unwrap_or_default())
    }

    /// Asks for writers, or for readers of one key.
    async fn send_run(&self, run: &[Asked], store: &Store) -> Result<RenewReply, StoreError> {
        let ttl = self.ttl;
        match run {
            [first, ..] if first.mode == Mode::Shared => {
                let (key, holds) = (first.hold.key().clone(), run.iter());
                let holds = holds.map(|asked| asked.hold.id()).collect();
                let gone = store.ask(Keep { key, holds, ttl }).await?;
                let is_gone = |asked: &Asked| gone.contains(&asked.hold.id());
                let (gone, renewed) = run.iter().cloned().partition(is_gone);
                Ok(RenewReply { renewed, gone })
            }
            _ => {
                let holds = run
                    .iter()
                    .map(|Asked { hold, .. }| (hold.key().clone(), hold.id()));
                let holds = holds.collect();
                let gone = store.ask(Renew { holds, ttl }).await?;
                let (renewed, rest) = run.split_at(gone.unwrap_or(run.len()).min(run.len()));
                let gone = rest.iter().take(1).cloned().collect();
                let renewed = renewed.to_vec();
                Ok(RenewReply { renewed, gone })
            }
        }
    }

    /// What was renewed has its lease.
    pub(super) fn confirm(&self, reply: &RenewReply) {
        for Asked {
            hold, disconnects, ..
        } in &reply.renewed
        {
            hold.confirm(self.sent, self.ttl, *disconnects);
        }
    }

    /// Whether the store has said something of each hold.
    pub(super) fn is_answered_by(&self, reply: &RenewReply) -> bool {
        reply.renewed.len() + reply.gone.len() == self.holds.len()
    }
}

impl RenewReply {
    /// Whether some hold that was renewed counts once replicas have it.
    pub(super) fn awaits_replicas(&self) -> bool {
        self.renewed
            .iter()
            .any(|asked| asked.hold.confirm.is_some())
    }

    pub(super) fn is_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// What is gone is lost. A hold that has ended is gone rightly.
    pub(super) fn lose(&self) {
        for Asked { hold, .. } in self.gone.iter().filter(|asked| asked.hold.depth() > 0) {
            events::renewal_refused(hold.key());
            hold.lose(LostReason::Gone);
        }
    }
}

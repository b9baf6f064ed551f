//! The holds that are renewed together: one hold, those of one acquisition, readers of one key, or independent holds. A
//! single hold is handled as a list of length one. Each hold has its own outcome.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::base::error::{LostReason, StoreError};
use crate::base::events;
use crate::base::option_types::Mode;
use crate::hold::hold::Hold;
use crate::store::{Keep, MOST_TOGETHER, Renew, RenewAnswer, Store};

/// The holds that are renewed together.
#[derive(Clone, Debug)]
pub(super) struct Renewable(pub(super) Vec<Arc<Hold>>);

/// One request for the leases of holds, or several if one request cannot include all of them.
#[derive(Debug)]
pub(super) struct RenewRequest {
    /// An instant before the request is sent.
    pub(super) sent: Instant,
    holds: Vec<Asked>,
}

/// A hold to renew, and what was known before the request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) hold: Arc<Hold>,
    ttl: Duration,
    /// Whether a request about this hold must be about this hold only.
    is_alone: bool,
    disconnects: u64,
    /// The epoch of the connection.
    pub(super) epoch: u64,
}

/// The outcome for each hold of a request, in the order of the holds.
#[derive(Debug)]
pub(super) struct RenewReply(Vec<RenewAnswer>);

impl Renewable {
    /// Removes the holds that have ended, and those that are lost, which it reports.
    pub(super) fn retain_held(&mut self, tell_lost: impl Fn(&Hold)) {
        self.0.retain(|hold| {
            let is_lost = hold.lost().is_some();
            if is_lost {
                tell_lost(hold);
            }
            !is_lost && hold.depth() > 0
        });
    }

    /// The time at which the first lease expires unless it is renewed.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.iter().map(|hold| hold.deadline()).min()
    }

    /// Returns whether there is a connection for each of them.
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
    /// Creates a request. The holds of one acquisition request the longest TTL of all of them from now on. The reason
    /// is that a request about one of them must not request less than an earlier one about all, which may be executed
    /// later.
    pub(super) fn new(holds: &[Arc<Hold>], store: &Store) -> Self {
        let grouped = || holds.iter().filter(|hold| hold.group().is_some());
        if let Some(ttl) = grouped().map(|hold| hold.ttl()).max() {
            grouped().for_each(|hold| hold.raise_ttl(ttl));
        }
        let asked = holds.iter().map(|hold| Asked {
            hold: Arc::clone(hold),
            ttl: hold.ttl(),
            is_alone: hold.is_renewed_alone(),
            disconnects: store.disconnects_of(hold.key()),
            epoch: store.connection_epoch(hold.key()),
        });
        let holds = asked.collect();
        Self {
            sent: Instant::now(),
            holds,
        }
    }

    /// Returns whether a connection was lost since.
    pub(super) fn is_cut(&self, store: &Store) -> bool {
        let mut holds = self.holds.iter();
        holds.any(|asked| asked.disconnects != store.disconnects_of(asked.hold.key()))
    }

    pub(super) async fn send(&self, store: &Store) -> Result<RenewReply, StoreError> {
        let runs = self
            .holds
            .chunk_by(|one, other| one.goes_with(other, store));
        let requests = runs.flat_map(|run| match run {
            [first, ..] if first.hold.mode() == Mode::Exclusive => run.chunks(MOST_TOGETHER),
            readers => readers.chunks(readers.len()),
        });
        let replies = try_join_all(requests.map(|run| send_run(run, store))).await?;
        Ok(RenewReply(replies.concat()))
    }

    /// The holds for which this is the outcome.
    fn those(&self, reply: &RenewReply, answer: RenewAnswer) -> impl Iterator<Item = &Asked> {
        let answers = self.holds.iter().zip(&reply.0);
        answers.filter_map(move |(asked, it)| (*it == answer).then_some(asked))
    }

    pub(super) fn renewed(&self, reply: &RenewReply) -> impl Iterator<Item = &Asked> {
        self.those(reply, RenewAnswer::Renewed)
    }

    /// Returns whether some hold that was renewed counts only after replicas have it.
    pub(super) fn awaits_replicas(&self, reply: &RenewReply) -> bool {
        let mut renewed = self.renewed(reply);
        renewed.any(|asked| asked.hold.confirm.is_some())
    }

    /// Confirms the leases of the holds that were renewed.
    pub(super) fn confirm(&self, reply: &RenewReply) {
        for Asked {
            hold,
            ttl,
            disconnects,
            ..
        } in self.renewed(reply)
        {
            hold.confirm(self.sent, *ttl, *disconnects);
        }
    }

    /// Marks the holds that are gone as lost. For a hold that has ended, this is no loss.
    pub(super) fn lose(&self, reply: &RenewReply) {
        let gone = self.those(reply, RenewAnswer::Gone);
        for Asked { hold, .. } in gone.filter(|asked| asked.hold.depth() > 0) {
            events::renewal_rejected(hold.key());
            hold.lose(LostReason::Deleted);
        }
    }

    /// Separates the holds about which nothing is known: each is renewed alone, until it is renewed.
    pub(super) fn separate_failed(&self, reply: &RenewReply) {
        let failed = self.those(reply, RenewAnswer::Failed);
        failed.for_each(|asked| asked.hold.renew_alone());
    }

    /// Separates the holds of a common request after an error that one key may have caused. Each is renewed alone,
    /// until it is renewed. Returns false if there was no common request.
    pub(super) fn separate(&self, error: &StoreError) -> bool {
        let common = || {
            let holds = self.holds.iter();
            holds.filter(|asked| asked.hold.mode() == Mode::Exclusive && !asked.is_alone)
        };
        let separates = common().nth(1).is_some() && Store::may_concern_one_key(error);
        if separates {
            common().for_each(|asked| asked.hold.renew_alone());
        }
        separates
    }
}

impl Asked {
    /// Returns whether one request may be about both, which are writers, or readers of one key. All holds of a renewal
    /// have one mode.
    fn goes_with(&self, other: &Self, store: &Store) -> bool {
        let (key, next) = (self.hold.key(), other.hold.key());
        let is_common = !self.is_alone && !other.is_alone;
        self.ttl == other.ttl
            && match self.hold.mode() {
                Mode::Exclusive => is_common && store.spans(key, next),
                Mode::Shared => key == next,
            }
    }
}

/// Renews writers, or readers of one key, that request one TTL.
async fn send_run(run: &[Asked], store: &Store) -> Result<Vec<RenewAnswer>, StoreError> {
    let [first, ..] = run else {
        return Ok(Vec::new());
    };
    let ttl = first.ttl;
    let holds = run.iter().map(|asked| &asked.hold);
    if first.hold.mode() == Mode::Exclusive {
        let holds = holds.map(|hold| (hold.key().clone(), hold.id())).collect();
        return store.ask(Renew { holds, ttl }).await;
    }
    let (key, holds) = (
        first.hold.key().clone(),
        holds.map(|hold| hold.id()).collect(),
    );
    let gone = store.ask(Keep { key, holds, ttl }).await?;
    let answer = |asked: &Asked| match gone.contains(&asked.hold.id()) {
        true => RenewAnswer::Gone,
        false => RenewAnswer::Renewed,
    };
    Ok(run.iter().map(answer).collect())
}

impl RenewReply {
    pub(super) fn is_gone(&self) -> bool {
        self.0.contains(&RenewAnswer::Gone)
    }

    /// The reply that remains if replicas have confirmed some of the renewals, which are in their order. Fails if they
    /// have confirmed none.
    pub(super) fn confirmed(
        mut self,
        confirmed: Vec<Result<(), StoreError>>,
    ) -> Result<Self, StoreError> {
        let renewed = self.0.iter_mut().filter(|it| **it == RenewAnswer::Renewed);
        let (mut counts, mut failed) = (false, None);
        for (answer, confirmed) in renewed.zip(confirmed) {
            match confirmed {
                Ok(()) => counts = true,
                Err(error) => {
                    *answer = RenewAnswer::Failed;
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if !counts => Err(error),
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RenewAnswer::{Failed, Gone, Renewed};
    use super::*;
    use crate::base::error::Effect;

    #[test]
    fn what_replicas_have_not_confirmed_is_as_if_it_had_no_answer() {
        let late = || {
            let replicas = Arc::from("the replicas");
            Err(StoreError::new(
                "confirm",
                &replicas,
                Effect::Unknown,
                "late",
            ))
        };
        let reply = || RenewReply(vec![Renewed, Gone, Renewed]);
        let counts = |confirmed| reply().confirmed(confirmed).map(|it| it.0).ok();
        assert_eq!(
            counts(vec![Ok(()), Ok(())]),
            Some(vec![Renewed, Gone, Renewed])
        );
        assert_eq!(
            counts(vec![Ok(()), late()]),
            Some(vec![Renewed, Gone, Failed])
        );
        assert_eq!(counts(vec![late(), late()]), None);
    }
}

//! What is renewed by one request: a hold, those of one acquisition of several keys, or readers of one key.

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{
    TryFutureExt,
    future::{try_join, try_join_all},
};
use tokio::{runtime, time::Instant};

use crate::{
    base::{
        error::{LostReason, StoreError},
        id::HoldId,
        key::LockKey,
        mode::Mode,
        notify::until,
    },
    hold::{group::Group, hold::Hold, lease::Due, schedule::Slot},
    store::{Answer, HoldOf, Keep, MOST_TOGETHER, Renew, Store},
};

/// One entry of a schedule (P4).
#[derive(Clone, Debug)]
pub(super) enum Renewed {
    One(Arc<Hold>),
    Several(Arc<Group<Hold>>),
}

/// The entries that are renewed together.
#[derive(Debug)]
pub(super) enum Together {
    /// One of them.
    Entry(Renewed),
    /// The holds of readers of one key.
    Readers(Vec<Arc<Hold>>),
}

/// The holds that a request renews.
#[derive(Debug)]
pub(super) enum Holds {
    One(Arc<Hold>),
    Several(Vec<Arc<Hold>>),
    Readers(Vec<Arc<Hold>>),
}

/// A renewal on its way.
pub(super) enum Asked {
    Readers(Answer<Vec<HoldId>>),
    Several(Answer<Option<usize>>),
}

impl Renewed {
    pub(super) fn of(hold: &Arc<Hold>) -> Self {
        match hold.group() {
            None => Self::One(Arc::clone(hold)),
            Some(group) => Self::Several(Arc::clone(group)),
        }
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(one), Self::One(other)) => Arc::ptr_eq(one, other),
            (Self::Several(one), Self::Several(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Its place in the schedule, and on which runtime that is.
    pub(super) fn seat(&self) -> Option<(Slot, runtime::Id)> {
        match self {
            Self::One(hold) => hold.seat(),
            Self::Several(group) => group.seat(),
        }
    }

    /// The holds that have not ended.
    pub(super) fn holds(&self) -> Holds {
        match self {
            Self::One(hold) => Holds::One(Arc::clone(hold)),
            Self::Several(group) => Holds::Several(group.members()),
        }
    }

    /// When the first of the leases is to be looked after.
    pub(super) fn due(&self, disconnects_of: impl Fn(&LockKey) -> u64) -> Option<Instant> {
        let due = |hold: &Arc<Hold>| hold.due(disconnects_of(hold.key()));
        match self {
            Self::One(hold) => Some(due(hold)),
            Self::Several(group) => {
                let members = group.members();
                members.iter().map(due).min()
            }
        }
    }

    /// When the first of the leases ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::One(hold) => Some(hold.deadline()),
            Self::Several(_) => self.holds().deadline(),
        }
    }

    /// The server that answers for it, unless these are several.
    pub(super) fn server(&self, store: &Store) -> Option<usize> {
        match self {
            Self::One(hold) => Some(store.server_of(hold.key())),
            Self::Several(group) => {
                let members = group.members();
                let mut servers = members.iter().map(|hold| store.server_of(hold.key()));
                let first = servers.next()?;
                servers.all(|server| server == first).then_some(first)
            }
        }
    }

    /// What is to be done for the leases. It reports no loss; see [`Hold::look`].
    pub(super) fn look(
        &self,
        disconnects_of: impl Fn(&LockKey) -> u64,
        now: Instant,
    ) -> Option<Due> {
        let look = |hold: &Arc<Hold>| hold.look(disconnects_of(hold.key()), now);
        match self {
            Self::One(hold) => Some(look(hold)),
            Self::Several(group) => {
                let members = group.members();
                let looks = members.iter().map(look);
                looks.reduce(|one, other| match (one, other) {
                    (Due::Lost, _) | (_, Due::Lost) => Due::Lost,
                    (Due::Renewal, _) | (_, Due::Renewal) => Due::Renewal,
                    (Due::At(one), Due::At(other)) => Due::At(one.min(other)),
                })
            }
        }
    }

    /// Resolves when no hold is left.
    async fn until_ended(&self) {
        match self {
            Self::One(hold) => hold.until_ended().await,
            Self::Several(group) => {
                until(&group.over, || group.members().is_empty().then_some(())).await;
            }
        }
    }
}

impl Together {
    /// The holds that have not ended.
    pub(super) fn holds(&self) -> Holds {
        match self {
            Self::Entry(entry) => entry.holds(),
            Self::Readers(holds) => {
                let lives = |hold: &&Arc<Hold>| hold.depth() > 0 && hold.lost().is_none();
                Holds::Readers(holds.iter().filter(lives).cloned().collect())
            }
        }
    }

    /// Resolves when no hold is left.
    pub(super) async fn until_ended(&self) {
        match self {
            Self::Entry(entry) => entry.until_ended().await,
            // Their renewal sees it when it asks next.
            Self::Readers(_) => pending().await,
        }
    }
}

impl Holds {
    pub(super) fn as_slice(&self) -> &[Arc<Hold>] {
        match self {
            Self::One(hold) => std::slice::from_ref(hold),
            Self::Several(holds) | Self::Readers(holds) => holds,
        }
    }

    /// How the first of them was lost that was. Each reader is lost for itself.
    pub(super) fn lost(&self) -> Option<LostReason> {
        match self {
            Self::One(_) | Self::Several(_) => self.as_slice().iter().find_map(|hold| hold.lost()),
            Self::Readers(_) => None,
        }
    }

    /// When the first lease ends unless it is renewed.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.as_slice().iter().map(|hold| hold.deadline()).min()
    }

    /// Whether there is a connection for each of them.
    pub(super) fn is_connected(&self, store: &Store) -> bool {
        let mut holds = self.as_slice().iter();
        holds.all(|hold| store.is_connected(hold.key()))
    }

    /// How many disconnects there were that concern each of them.
    pub(super) fn seen(&self, store: &Store) -> Vec<u64> {
        let holds = self.as_slice().iter();
        holds.map(|hold| store.disconnects_of(hold.key())).collect()
    }

    /// The longest lease that any of them asks for. All of them ask for it from now on: a request that one sends for
    /// itself must not ask for less than one about all that may be executed later.
    pub(super) fn ttl(&self) -> Duration {
        let ttls = self.as_slice().iter().map(|hold| hold.ttl());
        let ttl = ttls.max().unwrap_or_default();
        if let Self::Several(holds) = self {
            holds.iter().for_each(|hold| hold.raise_ttl(ttl));
        }
        ttl
    }

    pub(super) fn ask(&self, store: &Store, ttl: Duration) -> Asked {
        match self {
            Self::One(hold) => match hold.mode() {
                Mode::Exclusive => {
                    let holds = vec![(hold.key().clone(), hold.id())];
                    Asked::Several(store.ask(Renew { holds, ttl }))
                }
                Mode::Shared => Asked::Readers(keep(std::slice::from_ref(hold), store, ttl)),
            },
            Self::Readers(holds) => Asked::Readers(keep(holds, store, ttl)),
            Self::Several(holds) => {
                let (alone, readers): (Vec<_>, Vec<_>) = (0..)
                    .zip(holds)
                    .partition(|(_, hold)| hold.mode() == Mode::Exclusive);
                let together = alone
                    .iter()
                    .map(|(_, hold)| (hold.key().clone(), hold.id()));
                let together: Vec<_> = together.collect();
                let together = renew(&together, store, ttl);
                if readers.is_empty() {
                    return Asked::Several(together);
                }
                let alone: Vec<usize> = alone.into_iter().map(|(index, _)| index).collect();
                let kept = readers.into_iter().map(|(index, hold)| {
                    let kept = keep(std::slice::from_ref(hold), store, ttl);
                    kept.map_ok(move |gone| (!gone.is_empty()).then_some(index))
                });
                let kept = try_join_all(kept.collect::<Vec<_>>());
                Asked::Several(Box::pin(async move {
                    let (gone, kept) = try_join(together, kept).await?;
                    let gone = gone.and_then(|index| alone.get(index).copied());
                    Ok(gone.or_else(|| kept.into_iter().flatten().next()))
                }))
            }
        }
    }
}

/// Renews holds with a request for each run of them that one may be about. Returns the index of the first that is gone.
fn renew(holds: &[HoldOf], store: &Store, ttl: Duration) -> Answer<Option<usize>> {
    let runs = holds.chunk_by(|(one, _), (other, _)| store.spans(one, other));
    let runs = runs.flat_map(|run| run.chunks(MOST_TOGETHER)).map(|run| {
        let (count, holds) = (run.len(), run.to_vec());
        let renewed = store.ask(Renew { holds, ttl });
        async move { Ok((count, renewed.await?)) }
    });
    let answers = try_join_all(runs.collect::<Vec<_>>());
    Box::pin(async move {
        let mut before = 0;
        for (count, gone) in answers.await? {
            if let Some(gone) = gone {
                return Ok(Some(before + gone));
            }
            before += count;
        }
        Ok(None)
    })
}

/// Readers of one key keep their own leases. Returns those that are gone.
fn keep(holds: &[Arc<Hold>], store: &Store, ttl: Duration) -> Answer<Vec<HoldId>> {
    let Some(first) = holds.first() else {
        return Box::pin(async { Ok(Vec::new()) });
    };
    let key = first.key().clone();
    let holds = holds.iter().map(|hold| hold.id()).collect();
    store.ask(Keep { key, holds, ttl })
}

impl Asked {
    /// Which of these holds are gone; of those of several keys the first.
    pub(super) async fn answer(self, holds: &Holds) -> Result<Vec<Arc<Hold>>, StoreError> {
        let holds = holds.as_slice();
        Ok(match self {
            Self::Readers(answer) => {
                let gone = answer.await?;
                let is_gone = |hold: &&Arc<Hold>| gone.contains(&hold.id());
                holds.iter().filter(is_gone).cloned().collect()
            }
            Self::Several(answer) => {
                let gone = answer.await?.and_then(|index| holds.get(index));
                gone.into_iter().cloned().collect()
            }
        })
    }
}

//! One attempt at a lock and the section under it, which record everything that happens to them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use reentry::__admin::Ids as _;
use reentry::{Held, LockError, LockRequest, Locks};
use tokio::time::{Instant, sleep};

use crate::clock::{self, nanos};
use crate::ledger::{Ledger, Life, Outcome, Reason, What};
use crate::plan::{Mode, RESPONSE_TIMEOUT};
use crate::shape::Shape;
use crate::topology::Topology;

/// The maximum delay of a depth in the store after a nested entry. It allows for many attempts.
const LATE: Duration = RESPONSE_TIMEOUT.saturating_mul(20);

/// The state that all tasks of one worker share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) mode: Mode,
    pub(crate) topology: Topology,
    pub(crate) locks: Locks,
    pub(crate) ledger: Ledger,
}

impl Client {
    /// The usual limit of a wait.
    pub(crate) fn wait(&self) -> Duration {
        self.topology.wait()
    }

    /// The longest lease that a section of this shape requests under a lock with this TTL.
    pub(crate) fn longest(&self, shape: Shape, ttl: Duration) -> Duration {
        if shape.levels > 0 && shape.lengthens {
            self.topology.longest_ttl().max(ttl)
        } else {
            ttl
        }
    }
}

/// An attempt at one lock, recorded from its beginning to its end, even if it is dropped.
#[derive(Debug)]
pub(crate) struct Op {
    site: Site,
    /// Whether the same request acquires other keys too.
    together: bool,
    ended: bool,
}

/// The environment of a body.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) client: Arc<Client>,
    pub(crate) key: String,
    op: u64,
}

impl Op {
    pub(crate) fn begin(client: &Arc<Client>, key: &str, patience: Duration) -> Op {
        Op::begin_one(client, key, patience, false)
    }

    /// One attempt for each key of a request.
    pub(crate) fn begin_all(client: &Arc<Client>, keys: &[&str], patience: Duration) -> Vec<Op> {
        let begin = |key: &&str| Op::begin_one(client, key, patience, true);
        keys.iter().map(begin).collect()
    }

    fn begin_one(client: &Arc<Client>, key: &str, patience: Duration, together: bool) -> Op {
        let site = Site {
            client: Arc::clone(client),
            key: key.to_owned(),
            op: client.ledger.next_op(),
        };
        site.write_now(What::Wants {
            key: site.key.clone(),
            patience: nanos(patience),
            together,
        });
        Op {
            site,
            together,
            ended: false,
        }
    }

    pub(crate) fn site(&self) -> Site {
        self.site.clone()
    }

    pub(crate) fn end<T>(self, result: &Result<T, LockError>) {
        let outcome = match result {
            // Of several locks the error names the one that was lost.
            Err(LockError::Lost { key, .. }) if self.together && *key != self.site.key => {
                Outcome::Lost(Reason::Sibling)
            }
            result => outcome(result),
        };
        self.end_as(outcome);
    }

    pub(crate) fn end_as(mut self, outcome: Outcome) {
        self.ended = true;
        self.site.write_now(What::Ended(outcome));
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if !self.ended {
            self.site.write_now(What::Ended(Outcome::Dropped));
        }
    }
}

fn outcome<T>(result: &Result<T, LockError>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(LockError::Lost { reason, .. }) => Outcome::Lost((*reason).into()),
        Err(LockError::Busy { waited, .. }) if waited.is_zero() => Outcome::Busy,
        Err(LockError::Busy { .. }) => Outcome::Timeout,
        Err(LockError::Unavailable { .. }) => Outcome::Unavailable,
        Err(LockError::Deadlock { .. }) => Outcome::Deadlock,
        Err(error) => Outcome::Unexpected(format!("{error:?}")),
    }
}

impl Site {
    fn write_now(&self, what: What) {
        self.client.ledger.write_now(self.op, what);
    }
}

/// A section. Its end is recorded when it is dropped.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) site: Site,
    pub(crate) held: Held,
    /// Whether no inner body was dropped, so that the depth in the store is known.
    pub(crate) depth_is_known: bool,
    finished: bool,
}

impl Section {
    /// The first step of a body. Its lease is never renewed for longer than `ttl`.
    pub(crate) fn enter(site: Site, held: Held, ttl: Duration) -> Section {
        let at = clock::now();
        let entered = What::Entered {
            key: site.key.clone(),
            token: u64::from(held.fencing_token()),
            hold: held.hold_id().to_string(),
            ttl: nanos(ttl),
            shares: held.is_shared(),
            life: life(&held),
        };
        site.client.ledger.write(at, site.op, entered);
        Section {
            depth_is_known: true,
            site,
            held,
            finished: false,
        }
    }

    /// A request for the same lock inside it.
    pub(crate) fn again(&self) -> LockRequest {
        let Site { client, key, .. } = &self.site;
        let request = client.locks.lock(key);
        if self.held.is_shared() {
            request.read()
        } else {
            request
        }
    }

    pub(crate) fn step(&self) {
        let at = clock::now();
        let step = What::Step(life(&self.held));
        self.site.client.ledger.write(at, self.site.op, step);
    }

    pub(crate) fn reentered(&self) {
        self.site.write_now(What::Reentered);
    }

    /// Compares the depth in the store with that of the section, if it is known. The store has it a little later than the
    /// entry.
    pub(crate) async fn compare_depth(&self) {
        if !self.depth_is_known {
            return;
        }
        let wanted = u64::from(self.held.depth());
        let mut stored = self.stored_depth().await;
        let begun = Instant::now();
        while stored.is_some_and(|stored| stored != wanted) && begun.elapsed() < LATE {
            sleep(RESPONSE_TIMEOUT / 10).await;
            stored = self.stored_depth().await;
        }
        let at = clock::now();
        if let Some(stored) = stored.filter(|_| !self.held.is_lost()) {
            let depth = What::Depth { wanted, stored };
            self.site.client.ledger.write(at, self.site.op, depth);
        }
    }

    /// `None` if the store does not respond.
    async fn stored_depth(&self) -> Option<u64> {
        let hold = self.held.hold_id().to_string();
        let info = self
            .site
            .client
            .locks
            .admin()
            .inspect(&self.site.key)
            .await
            .ok()?;
        let holders = info.map_or_else(Vec::new, |info| info.holders);
        let mine = holders.iter().find(|holder| holder.hold_id == hold);
        Some(mine.map_or(0, |holder| holder.depth))
    }

    pub(crate) fn finish(mut self) {
        self.step();
        self.finished = true;
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let finished = self.finished;
        self.site.write_now(What::Left { finished });
    }
}

fn life(held: &Held) -> Life {
    if held.is_lost() {
        let reason = held.lost().now_or_never().map(Reason::from);
        return Life::Lost(reason.unwrap_or(Reason::Unknown));
    }
    Life::Valid(nanos(held.remaining()))
}

//! The releases that were recently answered. They are repeated at a server that replaces another one.
//!
//! A server that answers a release may fail before its replicas, or its disk, have it. Then the lock is still held on
//! the server that replaces it, for a hold that has ended, until its lease expires. A release changes only what its own
//! hold has left, so it may be repeated.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::connection::Connection;
use crate::base::sync::Mutex;
use crate::store::redis::replication_id::ReplicationId;
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::question::{Question, Short, ShortWish};

/// The age up to which an answered release is repeated.
const LATELY: Duration = Duration::from_secs(10);

/// The most releases that are remembered.
const MOST: usize = 1_024;

/// The releases that were recently answered, the oldest first.
#[derive(Default)]
pub(crate) struct RecentReleases(Mutex<Releases>);

#[derive(Default)]
struct Releases {
    known: VecDeque<AnsweredRelease>,
    /// The number of releases so far.
    count: u64,
}

struct AnsweredRelease {
    number: u64,
    ended: EndedHold,
    answered: Instant,
    /// The server that has answered it.
    replication_id: ReplicationId,
}

/// A hold that has ended, with the request that ended it.
#[derive(Clone)]
pub(crate) enum EndedHold {
    /// Most releases are short, and are remembered without their requests.
    Short(Short),
    Call(Box<Call>),
}

impl EndedHold {
    /// The hold that a question ends, if it changes nothing else.
    pub(crate) fn of(question: &impl Question, call: Option<Call>) -> Option<Self> {
        if question.verb() != "release" {
            return None;
        }
        match question.short() {
            Some(short) => Some(Self::Short(short)),
            None => Some(Self::Call(Box::new(call?))),
        }
    }

    fn call(self) -> Option<Call> {
        match self {
            Self::Call(call) => Some(*call),
            Self::Short(Short { key, hold, wish }) => match wish {
                ShortWish::Release { mode, alone } => Some(alone(&key, hold, mode)),
                ShortWish::Acquire { .. } => None,
            },
        }
    }

    fn slot(&self) -> u16 {
        match self {
            Self::Short(short) => short.key.slot(),
            Self::Call(call) => call.slot(),
        }
    }
}

impl RecentReleases {
    /// Remembers a release that a server has answered.
    pub(crate) fn answered(&self, ended: EndedHold, replication_id: &ReplicationId) {
        let (answered, replication_id) = (Instant::now(), replication_id.clone());
        let mut releases = self.0.lock();
        let Releases { known, count } = &mut *releases;
        let oldest = known.front();
        let is_over = oldest.is_some_and(|it| it.answered + LATELY < answered);
        let forgotten = (is_over || known.len() == MOST).then(|| known.pop_front());
        *count += 1;
        known.push_back(AnsweredRelease {
            number: *count,
            ended,
            answered,
            replication_id,
        });
        drop(releases);
        drop(forgotten);
    }

    /// Repeats the releases that other servers have answered, in their order, in the slots that this server has. A
    /// release that is not answered may be repeated over the next connection.
    pub(crate) async fn repeat(
        &self,
        connection: &Connection,
        has: impl Fn(u16) -> bool,
        limit: Duration,
    ) {
        let releases = self.answered_elsewhere(&connection.replication_id, has);
        if releases.is_empty() {
            return;
        }
        // All scripts are loaded first: a release that must be sent again in full would come after later ones.
        let scripts = releases.iter().map(|(_, call)| (call.verb(), call.load()));
        let scripts: BTreeMap<_, _> = scripts.collect();
        let loads = scripts.into_values().flatten().map(|load| (None, load));
        let releases = releases
            .into_iter()
            .map(|(number, call)| (Some(number), call));
        let calls: Vec<_> = loads.chain(releases).collect();
        let asked = calls.iter().map(async |(number, call)| {
            let asked = connection.ask(call, Way::Plain, limit).await;
            number.filter(|_| asked.is_ok())
        });
        let answered: BTreeSet<_> = join_all(asked).await.into_iter().flatten().collect();
        for release in &mut self.0.lock().known {
            if answered.contains(&release.number) {
                release.replication_id = connection.replication_id.clone();
            }
        }
    }

    fn answered_elsewhere(
        &self,
        replication_id: &ReplicationId,
        has: impl Fn(u16) -> bool,
    ) -> Vec<(u64, Call)> {
        let now = Instant::now();
        let releases = self.0.lock();
        let lately = releases
            .known
            .iter()
            .filter(|it| now < it.answered + LATELY);
        let elsewhere =
            lately.filter(|it| it.replication_id != *replication_id && has(it.ended.slot()));
        let ended = elsewhere.map(|it| Some((it.number, it.ended.clone().call()?)));
        ended.flatten().collect()
    }
}

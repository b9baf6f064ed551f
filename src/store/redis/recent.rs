//! The releases that were answered lately, which are repeated where another server answers from then on.
//!
//! A server that answers a release may not have told its replicas, nor written it down, when it fails. Then the lock stands
//! on the server that comes after it, for a hold that has ended, until its lease runs out. A release changes nothing but
//! what its own hold has left, so it may be repeated.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    call::{Call, Way},
    connection::Connection,
    history::History,
};
use crate::base::mutex::Mutex;

/// How long ago a release may have been answered.
const LATELY: Duration = Duration::from_secs(10);

/// How many of them are known at most: the last ones.
const MOST: usize = 1_024;

/// The releases that were answered lately, the oldest first.
#[derive(Default)]
pub(super) struct Recent(Mutex<VecDeque<Release>>);

struct Release {
    call: Arc<Call>,
    answered: Instant,
    /// Who has answered it.
    history: History,
}

impl Recent {
    /// A server has answered a release.
    pub(super) fn answered(&self, call: Call, history: &History) {
        let release = Release {
            call: Arc::new(call),
            answered: Instant::now(),
            history: history.clone(),
        };
        let mut releases = self.0.lock();
        let oldest = releases.front();
        let is_over = oldest.is_some_and(|it| it.answered + LATELY < release.answered);
        let forgotten = (is_over || releases.len() == MOST).then(|| releases.pop_front());
        releases.push_back(release);
        drop(releases);
        drop(forgotten);
    }

    /// Repeats, in their order, what another server has answered, as far as this one has the slot. What is not answered
    /// may be repeated over the next connection.
    pub(super) async fn repeat(
        &self,
        connection: &Connection,
        has: impl Fn(u16) -> bool,
        limit: Duration,
    ) {
        let releases = self.answered_elsewhere(&connection.history, has);
        if releases.is_empty() {
            return;
        }
        // One that has to be sent in full would come after later ones of scripts that are known.
        let scripts = releases.iter().map(|call| (call.verb(), call.load()));
        let scripts: BTreeMap<_, _> = scripts.collect();
        let loads = scripts.into_values().flatten();
        let calls: Vec<_> = loads.map(Arc::new).chain(releases).collect();
        let asked = calls.iter().map(async |call| {
            connection
                .ask(call, Way::Plain, limit)
                .await
                .is_ok()
                .then_some(call)
        });
        let answered = join_all(asked).await;
        let mut known = self.0.lock();
        for release in known.iter_mut() {
            let mut answered = answered.iter().flatten();
            if answered.any(|call| Arc::ptr_eq(call, &release.call)) {
                release.history = connection.history.clone();
            }
        }
    }

    fn answered_elsewhere(&self, history: &History, has: impl Fn(u16) -> bool) -> Vec<Arc<Call>> {
        let now = Instant::now();
        let releases = self.0.lock();
        let lately = releases.iter().filter(|it| now < it.answered + LATELY);
        let elsewhere = lately.filter(|it| it.history != *history && has(it.call.slot()));
        elsewhere.map(|it| Arc::clone(&it.call)).collect()
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recent").field(&self.0.lock().len()).finish()
    }
}

//! What operators look at: which locks there are, and who waits for one.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use tokio::time::Instant;

use super::State;
use crate::{
    base::{glob, key::LockKey, mode::Mode},
    store::{
        memory::line::Want,
        survey::{
            Cursor, GLANCED, Glance, InServer, LOOKED_AT, Place, QueuePage, Queued, QueuedProcess,
            Scan, Scanned,
        },
    },
};

impl State {
    /// The least keys behind the place of the scan.
    pub(in crate::store::memory) fn scan(&self, scan: &Scan, now: Instant) -> Scanned {
        let present = scan.from.present.as_ref();
        let behind = present.and_then(|at| match &at.place {
            Place::Behind(key) => Some(key.as_str()),
            Place::Named(_) => None,
        });
        let is_behind = |key: &&str| behind.is_none_or(|behind| *key > behind);
        let held = self.locks.iter().filter(|(_, lock)| now < lock.expires);
        let mut least = BinaryHeap::with_capacity(scan.count + 1);
        let mut left = 0_u64;
        for key in held.map(|(key, _)| key.as_str()).filter(is_behind) {
            left += 1;
            least.push(key);
            if least.len() > scan.count {
                least.pop();
            }
        }
        let seen = present.map_or(0, |at| at.seen) + least.len() as u64;
        let left = left - least.len() as u64;
        let keys = least.into_sorted_vec();
        let next = keys.last().filter(|_| left > 0).map(|last| Cursor {
            done: Vec::new(),
            present: Some(InServer {
                server: Arc::from(""),
                history: Arc::from(""),
                place: Place::Behind((*last).to_owned()),
                keys: None,
                seen,
            }),
        });
        let is_meant = |key: &&str| glob::matches(scan.pattern.as_bytes(), key.as_bytes());
        Scanned {
            names: keys
                .into_iter()
                .filter(is_meant)
                .map(str::to_owned)
                .collect(),
            unnamed: 0,
            progress: if next.is_some() {
                seen as f64 / (seen + left) as f64
            } else {
                1.0
            },
            next,
        }
    }

    pub(in crate::store::memory) fn glance(
        &mut self,
        key: &LockKey,
        now: Instant,
    ) -> Option<Glance> {
        let mut snapshot = self.inspect(key, now)?;
        let holders = snapshot.holders.len() as u64;
        if holders > LOOKED_AT as u64 {
            // Those whose leases end last stand first.
            snapshot
                .holders
                .sort_by_key(|holder| Reverse(holder.remaining));
        }
        snapshot.holders.truncate(GLANCED);
        let places = self.line(key, now, |line| line.standing().count());
        if places > LOOKED_AT {
            snapshot.waiting = places as u64;
        }
        Some(Glance { snapshot, holders })
    }

    pub(in crate::store::memory) fn queue(
        &mut self,
        key: &LockKey,
        page: QueuePage,
        now: Instant,
    ) -> Queued {
        let clock = self.clock;
        let is_behind = |order: u64| page.after.is_none_or(|after| order > after);
        let (places, processes) = self.line(key, now, |line| {
            let behind = line.standing().filter(|(place, _)| is_behind(place.order));
            let processes = behind
                .take(page.count)
                .map(|(place, process)| QueuedProcess {
                    inbox: place.inbox.as_bytes().to_vec(),
                    order: place.order,
                    deadline: process.map(|process| clock.at(process.deadline)),
                    holds: process
                        .map(|process| process.holds.clone())
                        .unwrap_or_default(),
                    grant: process.map(|process| process.grant).unwrap_or_default(),
                    mode: match process.map(|process| process.want) {
                        Some(Want::Shared { .. }) => Mode::Shared,
                        Some(Want::Alone { .. }) | None => Mode::Exclusive,
                    },
                });
            (line.standing().count() as u64, processes.collect())
        });
        Queued {
            at: clock.at(now),
            places,
            processes,
        }
    }
}

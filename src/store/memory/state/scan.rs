//! Which locks there are.

use std::collections::BinaryHeap;
use std::sync::Arc;

use tokio::time::Instant;

use super::State;
use crate::base::glob;
use crate::store::records::{Cursor, Scan, ScanPlace, Scanned, ServerCursor};

impl State {
    /// The least keys behind the place of the scan.
    pub(crate) fn scan(&self, scan: &Scan, now: Instant) -> Scanned {
        let present = scan.from.present.as_ref();
        let behind = present.and_then(|at| match &at.place {
            ScanPlace::Behind(key) => Some(key.as_str()),
            ScanPlace::Named(_) => None,
        });
        let (keys, left) = self.least(behind, scan.count, now);
        let seen = present.map_or(0, |at| at.seen) + keys.len() as u64;
        let next = keys.last().filter(|_| left > 0).map(|last| Cursor {
            done: Vec::new(),
            present: Some(ServerCursor {
                server: Arc::from(""),
                replication_id: Arc::from(""),
                place: ScanPlace::Behind((*last).to_owned()),
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

    /// So many of the least keys behind this one, in their order, and how many there are behind these.
    fn least(&self, behind: Option<&str>, count: usize, now: Instant) -> (Vec<&str>, u64) {
        let is_behind = |key: &&str| behind.is_none_or(|behind| *key > behind);
        let held = self.locks.iter().filter(|(_, lock)| now < lock.expires);
        let mut least = BinaryHeap::with_capacity(count + 1);
        let mut left = 0;
        for key in held.map(|(key, _)| key.as_str()).filter(is_behind) {
            least.push(key);
            if least.len() > count {
                least.pop();
                left += 1;
            }
        }
        (least.into_sorted_vec(), left)
    }
}

//! What is known of the servers of a cluster, and when they are asked again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::backoff::Backoff;
use crate::base::timer::after;
use crate::store::redis::connect::Connector;
use crate::store::redis::link::address::Place;

/// The least pause between two attempts to learn the map.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two attempts to learn the map, jitter aside.
const LONGEST: Duration = Duration::from_millis(300);

/// How long after the map was learnt last the pauses begin anew.
pub(super) const QUIET: Duration = Duration::from_secs(2);

/// A server, and the connection to it.
pub(crate) struct Node {
    pub(super) place: Place,
    pub(crate) connector: Arc<Connector>,
}

/// What is known of the servers.
pub(super) struct Known {
    /// The servers that have slots, and those to which a slot is being moved.
    pub(super) nodes: BTreeMap<Place, Arc<Node>>,
    /// The server of each slot. Empty until the map was learnt.
    pub(super) slots: Vec<Option<Arc<Node>>>,
    /// The epochs of slots that are being moved: each began when a request was last sent to the server that the slot moves to.
    pub(super) asked: BTreeMap<u16, u64>,
    /// The places of all servers, replicas too.
    pub(super) places: BTreeSet<Place>,
    /// The servers that were asked for the map, replicas too. They are kept while it is learnt again and again.
    pub(super) asked_again: BTreeMap<Place, Arc<Node>>,
    /// When the map was learnt last.
    pub(super) learnt: Option<Instant>,
    /// When the map may be learnt again.
    pub(super) learns_at: Option<Instant>,
    pub(super) pauses: Backoff,
    pub(super) is_closed: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            slots: Vec::new(),
            asked: BTreeMap::new(),
            places: BTreeSet::new(),
            asked_again: BTreeMap::new(),
            learnt: None,
            learns_at: None,
            pauses: Backoff::doubling(LONGEST),
            is_closed: false,
        }
    }
}

impl Known {
    /// Notes that the map is learnt now. Returns whether it was learnt shortly before, too.
    pub(super) fn learns_again(&mut self, now: Instant) -> bool {
        let before = self.learnt.replace(now);
        let is_again = before.is_some_and(|before| now < after(before, QUIET));
        if !is_again {
            self.pauses.reset();
        }
        self.learns_at = Some(after(now, self.pauses.next_pause().max(PAUSE)));
        is_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_map_that_proves_wrong_again_and_again_is_learnt_seldom() {
        let (mut known, begun) = (Known::default(), Instant::now());
        let (mut now, mut times) = (begun, 0);
        while now < begun + 10_000 * MS {
            assert_eq!(known.learns_again(now), times > 0);
            times += 1;
            now = known.learns_at.unwrap();
        }
        assert!((16..=5 + 34).contains(&times), "{times}");
        // Long after that it is learnt at once, and soon again.
        let later = now + QUIET;
        assert!(known.learns_at.unwrap() < later && !known.learns_again(later));
        assert_eq!(known.learns_at.unwrap() - later, PAUSE);
    }
}

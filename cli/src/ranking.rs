//! The first of many locks in some order, in bounded memory.

use std::cmp::Ordering;
use std::collections::HashMap;

use clap::ValueEnum;

use crate::view::LockView;

/// In which order locks are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Locks with the most waiting processes first
    Waiting,
    /// Locks that have been held for the longest time first
    Held,
    /// Locks whose leases expire soonest first
    Lease,
    /// Locks with the most holders first
    Holders,
    /// By name
    Key,
}

impl Order {
    /// Compares two locks: the one that comes first is less.
    pub(crate) fn compare(self, one: &LockView, other: &LockView) -> Ordering {
        let by = match self {
            Self::Waiting => other.waiting_processes.cmp(&one.waiting_processes),
            Self::Held => {
                // The token shows when a hold began. The spans cannot: each lock was read at another time.
                let begun = |lock: &LockView| lock.token.unwrap_or(u64::MAX);
                begun(one).cmp(&begun(other))
            }
            Self::Lease => {
                let end = |lock: &LockView| lock.lease_left_ms.unwrap_or(u64::MAX);
                end(one).cmp(&end(other))
            }
            Self::Holders => other.holder_count.cmp(&one.holder_count),
            Self::Key => Ordering::Equal,
        };
        by.then_with(|| one.key.cmp(&other.key))
    }
}

/// The orders that a key switches through.
#[cfg(feature = "watch")]
impl Order {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Waiting => Self::Held,
            Self::Held => Self::Lease,
            Self::Lease => Self::Holders,
            Self::Holders => Self::Key,
            Self::Key => Self::Waiting,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Lease => "lease",
            Self::Holders => "holders",
            Self::Key => "key",
        }
    }
}

/// The first of the locks that were added. If a lock was added twice, the later state counts.
///
/// It keeps up to twice as many locks as it must return. When it is full, it drops half of them.
#[derive(Debug)]
pub(crate) struct Top {
    order: Order,
    most: usize,
    locks: HashMap<String, LockView>,
}

impl Top {
    pub(crate) fn new(order: Order, most: usize) -> Self {
        Self {
            order,
            most,
            locks: HashMap::new(),
        }
    }

    pub(crate) fn put(&mut self, lock: LockView) {
        self.locks.insert(lock.key.clone(), lock);
        if self.locks.len() >= self.most.saturating_mul(2).max(2) {
            let first = self.sorted();
            self.locks = first.into_iter().map(|it| (it.key.clone(), it)).collect();
        }
    }

    /// Takes the first locks out, in their order. None is left.
    pub(crate) fn sorted(&mut self) -> Vec<LockView> {
        let mut locks: Vec<_> = self.locks.drain().map(|(_, lock)| lock).collect();
        locks.sort_by(|one, other| self.order.compare(one, other));
        locks.truncate(self.most);
        locks
    }
}

/// A table that stays on the screen.
#[cfg(feature = "watch")]
impl Top {
    /// The first locks, in their order.
    pub(crate) fn first(&self) -> Vec<&LockView> {
        let mut locks: Vec<_> = self.locks.values().collect();
        locks.sort_by(|one, other| self.order.compare(one, other));
        locks.truncate(self.most);
        locks
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.locks.remove(key);
    }

    /// Changes the order of the locks that it still has.
    pub(crate) fn reorder(&mut self, order: Order) {
        self.order = order;
    }

    /// The number of locks that it returns.
    pub(crate) fn count(&self) -> usize {
        self.locks.len().min(self.most)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn lock(key: &str, waiting: u64) -> LockView {
        LockView {
            key: key.to_owned(),
            mode: "exclusive",
            holder_count: 1,
            permits: None,
            holders: Vec::new(),
            lease_left_ms: Some(30_000),
            min_hold_ms: None,
            held_for_ms: Some(1_000),
            token: None,
            waiting_processes: waiting,
        }
    }

    #[test]
    fn the_first_locks_in_an_order_are_kept_in_bounded_memory() {
        let mut top = Top::new(Order::Waiting, 3);
        for number in 0..1_000 {
            top.put(lock(&format!("order:{number}"), number * 7 % 1_000));
            assert!(top.locks.len() <= 6);
        }
        let waiting: Vec<_> = top.sorted().iter().map(|it| it.waiting_processes).collect();
        assert_eq!(waiting, [999, 998, 997]);
    }

    #[test]
    fn the_oldest_hold_comes_first_in_whatever_order_it_was_read() {
        let mut top = Top::new(Order::Held, 3);
        for (key, token, held_for_ms) in [("b", Some(2), 8), ("a", Some(1), 7), ("?", None, 9)] {
            top.put(LockView {
                token,
                held_for_ms: Some(held_for_ms),
                ..lock(key, 0)
            });
        }
        let keys: Vec<_> = top.sorted().into_iter().map(|it| it.key).collect();
        assert_eq!(keys, ["a", "b", "?"]);
    }

    #[test]
    fn a_lock_that_is_scanned_twice_is_shown_once() {
        let mut top = Top::new(Order::Key, 5);
        top.put(lock("a", 1));
        top.put(lock("a", 2));
        assert_eq!(top.sorted(), [lock("a", 2)]);
    }
}

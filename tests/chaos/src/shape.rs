//! The random shape of a section.

use std::time::Duration;

use crate::plan::{KEYS, LOCKS};
use crate::support::dice::Dice;

/// The actions of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) steps: u64,
    pub(crate) pause: Duration,
    /// The number of levels by which it re-enters its lock.
    pub(crate) levels: u64,
    /// Whether an inner body is dropped before its end.
    pub(crate) drops_inner: bool,
    /// Whether the innermost re-entry requests a longer lease.
    pub(crate) lengthens: bool,
    /// A later key that it acquires as well.
    pub(crate) other: Option<&'static str>,
}

pub(crate) const BRIEF: Shape = Shape {
    steps: 1,
    pause: Duration::from_millis(1),
    levels: 0,
    drops_inner: false,
    lengthens: false,
    other: None,
};

impl Shape {
    /// The shape of a section of the lock with this index.
    pub(crate) fn roll(dice: &mut Dice, key: usize) -> Shape {
        let steps = 1 + dice.roll(4);
        let pause = millis(dice, 1, 15);
        let levels = if dice.roll(3) == 0 {
            1 + dice.roll(3)
        } else {
            0
        };
        let drops_inner = dice.roll(8) == 0;
        let lengthens = dice.roll(10) == 0;
        let other = (dice.roll(12) == 0).then(|| {
            let later = key + 1 + index(dice, LOCKS - 1);
            KEYS[..LOCKS].get(later).copied()
        });
        Shape {
            steps,
            pause,
            levels,
            drops_inner,
            lengthens,
            other: other.flatten(),
        }
    }

    /// The shape of a section of several locks.
    pub(crate) fn of_several(dice: &mut Dice) -> Shape {
        Shape {
            other: None,
            ..Shape::roll(dice, 0)
        }
    }

    /// The shape of a section with a permit, under which another request would take one more.
    pub(crate) fn of_permit(dice: &mut Dice) -> Shape {
        Shape {
            levels: 0,
            ..Shape::of_several(dice)
        }
    }

    /// A time that is longer than this `max_hold`.
    pub(crate) fn beyond(self, max_hold: Duration) -> Shape {
        Shape {
            steps: 8,
            pause: (max_hold / 7).max(Duration::from_millis(60)),
            ..self
        }
    }

    /// A time that is longer than one lease of this TTL.
    pub(crate) fn beyond_lease(self, ttl: Duration) -> Shape {
        Shape {
            steps: 10,
            pause: ttl / 8,
            ..self
        }
    }
}

pub(crate) fn millis(dice: &mut Dice, from: u64, to: u64) -> Duration {
    Duration::from_millis(from + dice.roll(to - from))
}

pub(crate) fn index(dice: &mut Dice, sides: usize) -> usize {
    usize::try_from(dice.roll(sides as u64)).unwrap_or(0)
}

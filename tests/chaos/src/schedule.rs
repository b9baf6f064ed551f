//! The schedule of faults: for each lane a deck of all its kinds, which is shuffled again whenever it is used up.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::{KINDS, Kind, Lane};
use crate::support::dice::Dice;
use crate::topology::Topology;

/// The endless series of faults of one lane, unless there are none.
#[derive(Debug)]
pub(crate) struct Deck {
    kinds: Vec<Kind>,
    cards: Vec<Kind>,
    pub(crate) topology: Topology,
    pub(crate) dice: Dice,
}

impl Deck {
    /// All kinds of this lane.
    pub(crate) fn new(lane: Lane, topology: Topology, dice: Dice) -> Deck {
        let wanted = |kind: &Kind| kind.lane() == lane && kind.runs_in(topology);
        Deck {
            kinds: KINDS.iter().copied().filter(wanted).collect(),
            cards: Vec::new(),
            topology,
            dice,
        }
    }

    pub(crate) fn has_kinds(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(crate) fn draw(&mut self) -> Kind {
        loop {
            if let Some(kind) = self.cards.pop() {
                return kind;
            }
            let twice = |kind: &&Kind| kind.is_telling();
            self.cards.clone_from(&self.kinds);
            self.cards.extend(self.kinds.iter().filter(twice));
            for last in (1..self.cards.len()).rev() {
                let other = self.dice.roll(last as u64 + 1);
                self.cards
                    .swap(last, usize::try_from(other).unwrap_or(last));
            }
        }
    }

    /// The time between two faults.
    pub(crate) fn pause(&mut self) -> Duration {
        self.millis(300, 2_000)
    }

    /// One of this number.
    pub(crate) fn place(&mut self, of: usize) -> usize {
        usize::try_from(self.dice.roll(of as u64)).unwrap_or(0)
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.dice.roll(to - from))
    }
}

/// The number of faults of each kind, including those of this topology that did not occur.
pub(crate) fn count(
    topology: Topology,
    kinds: impl IntoIterator<Item = Kind>,
) -> BTreeMap<Kind, usize> {
    let all = KINDS.iter().filter(|kind| kind.runs_in(topology));
    let mut counts: BTreeMap<_, _> = all.map(|&kind| (kind, 0)).collect();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

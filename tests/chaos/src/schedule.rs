//! When which fault comes: for each lane a deck of all its kinds, shuffled anew whenever it is used up.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault::{KINDS, Kind, Lane};
use crate::support::dice::Dice;

/// The faults of one lane, one after the other without an end, unless there are none.
#[derive(Debug)]
pub(crate) struct Deck {
    kinds: Vec<Kind>,
    cards: Vec<Kind>,
    pub(crate) dice: Dice,
}

impl Deck {
    /// All kinds of this lane, or those with `only` in their names.
    pub(crate) fn new(lane: Lane, only: Option<&str>, dice: Dice) -> Deck {
        let wanted = |kind: &Kind| {
            kind.lane() == lane && only.is_none_or(|words| kind.name().contains(words))
        };
        Deck {
            kinds: KINDS.iter().copied().filter(wanted).collect(),
            cards: Vec::new(),
            dice,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
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

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.dice.roll(to - from))
    }
}

/// How many faults of each kind there were, those that there were none of included.
pub(crate) fn count(kinds: impl IntoIterator<Item = Kind>) -> BTreeMap<Kind, usize> {
    let mut counts: BTreeMap<_, _> = KINDS.iter().map(|&kind| (kind, 0)).collect();
    for kind in kinds {
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::LANES;

    #[test]
    fn every_kind_has_its_turn_before_the_deck_is_dealt_again() {
        for lane in LANES {
            let mut deck = Deck::new(lane, None, Dice(1));
            let kinds = KINDS.iter().filter(|kind| kind.lane() == lane);
            let cards = |kind: &Kind| if kind.is_telling() { 2 } else { 1 };
            let size: usize = kinds.clone().map(cards).sum();
            for _ in 0..3 {
                let drawn = count((0..size).map(|_| deck.draw()));
                assert!(kinds.clone().all(|kind| drawn[kind] == cards(kind)));
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let order = || {
            let mut deck = Deck::new(Lane::Server, None, Dice(7));
            (0..50).map(|_| deck.draw()).collect::<Vec<_>>()
        };
        assert_eq!(order(), order());
    }
}

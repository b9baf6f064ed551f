//! A slot of a key that the workers want moves to another node in steps, and back.

use tokio::time::sleep;

use super::nodes::Victim;
use crate::ground::Ground;
use crate::plan::KEYS;
use crate::schedule::Deck;

impl Victim<'_> {
    /// Returns the node to which it moved.
    pub(super) async fn move_slot(&self, deck: &mut Deck) -> String {
        let Ground::Cluster(cluster) = self.ground else {
            return String::new();
        };
        let primaries = self.ground.primaries().await;
        let others: Vec<_> = primaries
            .into_iter()
            .filter(|it| *it != self.place)
            .collect();
        let there = others[deck.place(others.len())];
        let mut keys = Vec::new();
        for key in KEYS {
            if cluster.slot_of(key).await == self.slot {
                keys.push(key);
            }
        }
        for to in [there, self.place] {
            let moving = cluster.begin_move(self.slot, to).await;
            sleep(deck.millis(10, 600)).await;
            if deck.dice.roll(2) == 0 {
                // The locks move before their lines.
                moving.move_keys(&keys).await;
                sleep(deck.millis(10, 400)).await;
            }
            moving.move_all_keys().await;
            sleep(deck.millis(10, 600)).await;
            moving.move_all_keys().await;
            moving.finish().await;
            sleep(deck.millis(10, 2_000)).await;
        }
        format!(", slot {} -> node {there} and back", self.slot)
    }
}

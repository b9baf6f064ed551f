//! The faults of sentinels, or by them.

use std::time::Duration;

use tokio::time::sleep;

use super::nodes::Victim;
use super::tell::{Told, tell};
use crate::fault::Kind;
use crate::ground::Ground;
use crate::schedule::Deck;
use crate::support::sentinel::NAME;

impl Victim<'_> {
    /// Makes one of the running sentinels fail over, until it does.
    pub(super) async fn tell_a_sentinel(&self) {
        let Ground::Sentinel(set) = self.ground else {
            return;
        };
        let sentinels = set.sentinels.iter().filter(|it| it.is_running()).cycle();
        for sentinel in sentinels.take(200) {
            let told = tell(sentinel, &format!("SENTINEL FAILOVER {NAME}")).await;
            if matches!(told, Told::Answer(_)) {
                return;
            }
            // A failover may have just ended.
            sleep(Duration::from_millis(100)).await;
        }
        panic!("no sentinel fails over");
    }

    pub(super) async fn at_the_sentinels(&self, kind: Kind, deck: &mut Deck) {
        let Ground::Sentinel(set) = self.ground else {
            return;
        };
        let place = deck.place(set.sentinels.len());
        let one = &set.sentinels[place];
        match kind {
            Kind::SentinelKilled => {
                one.stop();
                sleep(deck.millis(300, 4_000)).await;
                one.start_again().await;
            }
            Kind::SentinelsStopped => {
                let is_meant = |it: &usize| *it == place;
                let all = deck.dice.roll(2) == 0;
                let meant = (0..set.sentinels.len()).filter(|it| all || is_meant(it));
                let meant: Vec<_> = meant.collect();
                meant.iter().for_each(|&it| set.sentinels[it].pause());
                // After two seconds they would consider the clock broken, and do nothing for half a minute.
                sleep(deck.millis(300, 1_700)).await;
                meant.iter().for_each(|&it| set.sentinels[it].resume());
            }
            _ => {
                for sentinel in &set.sentinels {
                    tell(sentinel, "CLIENT KILL TYPE pubsub").await;
                    tell(sentinel, "CLIENT KILL TYPE normal").await;
                }
            }
        }
    }
}

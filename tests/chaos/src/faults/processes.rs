//! The faults of worker processes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use crate::crew::Crew;
use crate::fault::{Kind, Target};
use crate::plan::WORKERS;
use crate::schedule::Deck;

pub(super) async fn strike(crew: &Mutex<Crew>, kind: Kind, deck: &mut Deck) -> Result<Target> {
    let slot = usize::try_from(deck.dice.roll(WORKERS as u64))?;
    let longest_ttl = deck.topology.longest_ttl();
    let crew = || crew.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Target::Worker(crew().name(slot));
    let stop = match kind {
        Kind::Kill => {
            crew().replace(slot)?;
            return Ok(target);
        }
        Kind::Stop => longest_ttl + deck.millis(50, 800),
        _ => deck.millis(20, 500),
    };
    crew().pause(slot);
    sleep(stop).await;
    crew().resume(slot);
    // Its actions from now on come after a loss that it could not foresee.
    sleep(Duration::from_millis(20)).await;
    Ok(target)
}

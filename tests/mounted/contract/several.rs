//! Several locks together. They are renewed by one request, and released if no process waits.

use std::time::Duration;

use super::world::{MINUTE, World, release_all, some_hold, some_waiter};
use crate::base::id::HoldId;
use crate::base::key::LockKey;
use crate::store::RenewReply::{Gone, Renewed};
use crate::store::{AcquireReply, KeyedHold, Presence, Renew, RenewReply};

on_every_store!(
    a_lease_that_ran_out_frees_one_of_several,
    renewing_lengthens_all_and_shortens_none,
    renewing_answers_for_each_and_none_keeps_the_others_from_it,
    a_release_frees_those_that_are_there_and_tells_which,
    a_release_moves_a_lock_that_a_process_waits_for,
);

/// The key of the world and two others, in one slot.
pub(super) fn keys(world: &World) -> [LockKey; 3] {
    let key = |name| {
        let name = format!("{{{}}}:{name}", world.key.as_str());
        LockKey::new("", &name).expect("a valid key")
    };
    [world.key.clone(), key("second"), key("third")]
}

impl World {
    /// Acquires locks that the hold must get.
    pub(super) async fn take_all(&mut self, keys: &[LockKey], hold: HoldId, ttl: Duration) {
        for key in keys {
            self.at(key, async |world| world.take(hold, ttl).await)
                .await;
        }
    }

    async fn release_all(&self, holds: &[KeyedHold]) -> Vec<bool> {
        release_all(&self.store, holds).await
    }

    async fn renew_all(&self, holds: &[KeyedHold], ttl: Duration) -> Vec<RenewReply> {
        let holds = holds.to_vec();
        self.send(Renew { holds, ttl }).await
    }

    /// This world at another key.
    async fn at<T>(&mut self, key: &LockKey, look: impl AsyncFnOnce(&Self) -> T) -> T {
        let before = std::mem::replace(&mut self.key, key.clone());
        let seen = look(self).await;
        self.key = before;
        seen
    }

    /// The hold that each of the locks has, with the approximate remaining minutes.
    async fn leases(&mut self, keys: &[LockKey]) -> Vec<Option<(String, u64)>> {
        let mut leases = Vec::new();
        for key in keys {
            let lease = async |world: &Self| {
                let (hold, _) = world.holders().await.into_iter().next()?;
                let minutes = (world.remaining().await + MINUTE / 2).as_secs() / 60;
                Some((hold, minutes))
            };
            leases.push(self.at(key, lease).await);
        }
        leases
    }
}

pub(super) fn each(keys: &[LockKey], hold: HoldId) -> Vec<KeyedHold> {
    keys.iter().map(|key| (key.clone(), hold)).collect()
}

fn lease(hold: HoldId, minutes: u64) -> Option<(String, u64)> {
    Some((hold.to_string(), minutes))
}

async fn a_lease_that_ran_out_frees_one_of_several(mut world: World) {
    let (keys, late) = (keys(&world), some_hold());
    world.take_all(&keys, late, 2 * MINUTE).await;
    world
        .at(&keys[2], async |world| world.renew(late, 9 * MINUTE).await)
        .await;
    world.pass(3 * MINUTE).await;
    let renewed = world.renew_all(&each(&keys, late), MINUTE).await;
    assert_eq!(renewed, [Gone, Gone, Renewed]);
    world.take_all(&keys[..2], some_hold(), MINUTE).await;
}

async fn renewing_lengthens_all_and_shortens_none(mut world: World) {
    let (keys, hold) = (keys(&world), some_hold());
    world.take_all(&keys, hold, 2 * MINUTE).await;
    let longer = async |world: &World| world.renew(hold, 9 * MINUTE).await;
    assert_eq!(world.at(&keys[1], longer).await, Presence::Present);
    let renewed = world.renew_all(&each(&keys, hold), 5 * MINUTE).await;
    assert_eq!(renewed, [Renewed; 3]);
    let expected = [lease(hold, 5), lease(hold, 9), lease(hold, 5)];
    assert_eq!(world.leases(&keys).await, expected);
}

async fn renewing_answers_for_each_and_none_keeps_the_others_from_it(mut world: World) {
    let (keys, hold, other) = (keys(&world), some_hold(), some_hold());
    world.take_all(&keys, hold, 2 * MINUTE).await;
    let mut holds = each(&keys, hold);
    holds[2].1 = other;
    let renewed = world.renew_all(&holds, 5 * MINUTE).await;
    assert_eq!(renewed, [Renewed, Renewed, Gone]);
    world.release(hold).await;
    let renewed = world.renew_all(&holds, 9 * MINUTE).await;
    assert_eq!(renewed, [Gone, Renewed, Gone]);
    let expected = [None, lease(hold, 9), lease(hold, 2)];
    assert_eq!(world.leases(&keys).await, expected);
    // A request that is executed late, or once more, does not shorten anything.
    let renewed = world.renew_all(&holds, MINUTE).await;
    assert_eq!(renewed, [Gone, Renewed, Gone]);
    assert_eq!(world.leases(&keys).await, expected);
}

async fn a_release_frees_those_that_are_there_and_tells_which(mut world: World) {
    let (keys, hold) = (keys(&world), some_hold());
    world.take_all(&keys, hold, MINUTE).await;
    assert_eq!(
        world.release_all(&each(&keys, some_hold())).await,
        [false; 3]
    );
    assert_eq!(world.leases(&keys).await, vec![lease(hold, 1); 3]);
    let first = async |world: &World| world.release(hold).await;
    assert_eq!(world.at(&keys[1], first).await, Presence::Present);
    let released = world.release_all(&each(&keys, hold)).await;
    assert_eq!(released, [true, false, true]);
    assert_eq!(world.leases(&keys).await, vec![None; 3]);
    assert_eq!(world.release_all(&each(&keys, hold)).await, [false; 3]);
}

async fn a_release_moves_a_lock_that_a_process_waits_for(mut world: World) {
    let (keys, hold) = (keys(&world), some_hold());
    let (waiter, entry) = some_waiter();
    world.take_all(&keys, hold, MINUTE).await;
    world.wait(waiter, MINUTE, entry).await;
    // A tombstone is a line as well.
    world
        .at(&keys[2], async |world| world.bury(some_hold()).await)
        .await;
    let released = world.release_all(&each(&keys, hold)).await;
    assert_eq!(released, [true; 3]);
    let moved = world.queue(waiter, MINUTE, entry).await;
    assert!(matches!(moved, AcquireReply::Held { .. }), "{moved:?}");
    assert_eq!(world.leases(&keys[1..]).await, [None, None]);
}

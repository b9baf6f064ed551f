//! Several locks together. They are acquired together or not at all, renewed together, and released if no process
//! waits.

use std::time::Duration;

use super::world::{MINUTE, World, near, release_all, some_hold, some_waiter};
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::store::RenewAnswer::{Gone, Renewed};
use crate::store::{
    AcquireAll, AcquireAllReply, AcquireReply, HoldOf, Presence, QueueEntry, Renew, RenewAnswer,
};

on_every_store!(
    free_locks_are_taken_together_with_one_token,
    one_that_is_held_leaves_the_others_alone,
    the_first_that_is_not_free_is_named,
    a_process_that_waits_is_not_overtaken_and_a_tombstone_of_another_does_not_matter,
    what_is_dead_in_a_line_keeps_no_lock_from_being_taken,
    asking_again_gives_the_same_tokens_and_never_a_shorter_lease,
    asking_again_where_one_is_gone_changes_nothing,
    a_tombstone_at_any_of_them_refuses_all,
    a_lease_that_ran_out_frees_one_of_several,
    the_token_is_greater_than_all_before_it_of_each_key,
    renewing_lengthens_all_and_shortens_none,
    renewing_answers_for_each_and_none_keeps_the_others_from_it,
    a_release_frees_those_that_are_there_and_tells_which,
    a_release_moves_a_lock_that_a_process_waits_for,
);

/// The key of the world and two others, in one slot.
fn keys(world: &World) -> [LockKey; 3] {
    let key = |name| {
        let name = format!("{{{}}}:{name}", world.key.as_str());
        LockKey::new("", &name).expect("a valid key")
    };
    [world.key.clone(), key("second"), key("third")]
}

impl World {
    async fn acquire_all(&self, keys: &[LockKey], hold: HoldId, ttl: Duration) -> AcquireAllReply {
        let keys = keys.to_vec();
        self.send(AcquireAll { keys, hold, ttl }).await
    }

    /// Acquires locks that the hold must get. Returns their tokens.
    async fn take_all(&self, keys: &[LockKey], hold: HoldId, ttl: Duration) -> Vec<FencingToken> {
        match self.acquire_all(keys, hold, ttl).await {
            AcquireAllReply::Held { locks, .. } => locks
                .into_iter()
                .map(|(token, lease)| {
                    assert!(near(lease, ttl), "{lease:?}");
                    token
                })
                .collect(),
            other => panic!("wanted the locks, got {other:?}"),
        }
    }

    async fn release_all(&self, holds: &[HoldOf]) -> Vec<bool> {
        release_all(&self.store, holds).await
    }

    async fn renew_all(&self, holds: &[HoldOf], ttl: Duration) -> Vec<RenewAnswer> {
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

fn each(keys: &[LockKey], hold: HoldId) -> Vec<HoldOf> {
    keys.iter().map(|key| (key.clone(), hold)).collect()
}

fn lease(hold: HoldId, minutes: u64) -> Option<(String, u64)> {
    Some((hold.to_string(), minutes))
}

async fn free_locks_are_taken_together_with_one_token(mut world: World) {
    let (keys, hold) = (keys(&world), some_hold());
    let tokens = world.take_all(&keys, hold, 2 * MINUTE).await;
    assert_eq!(tokens, [tokens[0]; 3]);
    assert_eq!(world.leases(&keys).await, vec![lease(hold, 2); 3]);
    for key in &keys {
        let token = async |world: &World| world.seen().await.token;
        assert_eq!(world.at(key, token).await, Some(tokens[0]));
    }
}

async fn one_that_is_held_leaves_the_others_alone(mut world: World) {
    let keys = keys(&world);
    for (at, key) in keys.iter().enumerate() {
        let holder = some_hold();
        world
            .at(key, async |world| world.take(holder, 3 * MINUTE).await)
            .await;
        let before = world.leases(&keys).await;
        let answer = world.acquire_all(&keys, some_hold(), 9 * MINUTE).await;
        assert_eq!(answer, AcquireAllReply::Busy { first: at });
        assert_eq!(world.leases(&keys).await, before);
        world
            .at(key, async |world| world.release(holder).await)
            .await;
    }
}

async fn the_first_that_is_not_free_is_named(mut world: World) {
    let keys = keys(&world);
    let mine = some_hold();
    for key in &keys[1..] {
        world
            .at(key, async |world| world.take(some_hold(), MINUTE).await)
            .await;
    }
    let answer = world.acquire_all(&keys, mine, MINUTE).await;
    assert_eq!(answer, AcquireAllReply::Busy { first: 1 });
    // A lock of its own counts as well, unless it has them all.
    world.take(mine, MINUTE).await;
    let answer = world.acquire_all(&keys, mine, MINUTE).await;
    assert_eq!(answer, AcquireAllReply::Busy { first: 0 });
}

async fn a_process_that_waits_is_not_overtaken_and_a_tombstone_of_another_does_not_matter(
    world: World,
) {
    let keys = keys(&world);
    let (holder, (waiter, entry)) = (some_hold(), some_waiter());
    world.take(holder, MINUTE).await;
    world.wait(waiter, MINUTE, entry).await;
    world.pass(2 * MINUTE).await;
    // The lease has expired, and the place exists.
    let answer = world.acquire_all(&keys, some_hold(), MINUTE).await;
    assert_eq!(answer, AcquireAllReply::Busy { first: 0 });
    world.leave(waiter, entry.inbox).await;
    world.bury(some_hold()).await;
    world.take_all(&keys, some_hold(), MINUTE).await;
}

/// A reader whose lock has gone, and a process that has died while it waited. A tombstone keeps their line.
async fn what_is_dead_in_a_line_keeps_no_lock_from_being_taken(mut world: World) {
    let keys = keys(&world);
    let (holder, reader) = (some_hold(), some_hold());
    world
        .at(&keys[1], async |world| {
            world.read(&[reader], MINUTE).await;
            world.bury(some_hold()).await;
        })
        .await;
    for key in [&keys[0], &keys[2]] {
        let (waiter, entry) = some_waiter();
        let entry = QueueEntry {
            life: 2 * MINUTE,
            ..entry
        };
        world
            .at(key, async |world| {
                world.take(holder, MINUTE).await;
                world.wait(waiter, MINUTE, entry).await;
                world.bury(some_hold()).await;
            })
            .await;
    }
    world.pass(3 * MINUTE).await;
    world.take_all(&keys, some_hold(), MINUTE).await;
}

async fn asking_again_gives_the_same_tokens_and_never_a_shorter_lease(mut world: World) {
    let (keys, hold) = (keys(&world), some_hold());
    let first = async |world: &World| world.take(hold, 3 * MINUTE).await;
    let token = world.at(&keys[1], first).await;
    let others = [keys[0].clone(), keys[2].clone()];
    let tokens = world.take_all(&others, hold, 3 * MINUTE).await;
    for (ttl, minutes) in [(1, 3), (5, 5), (2, 5)] {
        match world.acquire_all(&keys, hold, ttl * MINUTE).await {
            AcquireAllReply::Held { locks, .. } => {
                let again: Vec<_> = locks.iter().map(|(token, _)| *token).collect();
                assert_eq!(again, [tokens[0], token, tokens[0]]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(world.leases(&keys).await, vec![lease(hold, minutes); 3]);
    }
}

async fn asking_again_where_one_is_gone_changes_nothing(mut world: World) {
    let (keys, hold) = (keys(&world), some_hold());
    world.take_all(&keys, hold, MINUTE).await;
    world.release(hold).await;
    let before = world.leases(&keys).await;
    let answer = world.acquire_all(&keys, hold, 9 * MINUTE).await;
    assert_eq!(answer, AcquireAllReply::Busy { first: 1 });
    assert_eq!(world.leases(&keys).await, before);
}

async fn a_tombstone_at_any_of_them_refuses_all(mut world: World) {
    let keys = keys(&world);
    for key in &keys {
        let hold = some_hold();
        world.at(key, async |world| world.bury(hold).await).await;
        let answer = world.acquire_all(&keys, hold, MINUTE).await;
        assert_eq!(answer, AcquireAllReply::Ended);
        assert_eq!(world.leases(&keys).await, vec![None; 3]);
    }
    // This is also so if it has the others.
    let hold = some_hold();
    world.take_all(&keys, hold, MINUTE).await;
    world.bury(hold).await;
    assert_eq!(
        world.acquire_all(&keys, hold, 9 * MINUTE).await,
        AcquireAllReply::Ended
    );
    assert_eq!(
        world.leases(&keys).await,
        [None, lease(hold, 1), lease(hold, 1)]
    );
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
    let next = some_hold();
    let answer = world.acquire_all(&keys, next, MINUTE).await;
    assert_eq!(answer, AcquireAllReply::Busy { first: 2 });
    world.take_all(&keys[..2], next, MINUTE).await;
}

async fn the_token_is_greater_than_all_before_it_of_each_key(mut world: World) {
    let keys = keys(&world);
    let mut last = FencingToken(0);
    for key in &keys {
        let hold = some_hold();
        let taken = async |world: &World| {
            let token = world.take(hold, MINUTE).await;
            world.release(hold).await;
            token
        };
        last = last.max(world.at(key, taken).await);
    }
    let hold = some_hold();
    let tokens = world.take_all(&keys, hold, MINUTE).await;
    assert!(
        tokens.iter().all(|token| *token > last),
        "{tokens:?} {last}"
    );
    world.release_all(&each(&keys, hold)).await;
    assert!(world.take(some_hold(), MINUTE).await > tokens[0]);
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

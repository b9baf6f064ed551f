//! Published waits: who sees them, for how long they last, and when they are rejected. The victims of cycles are also
//! tested.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use redis::AsyncCommands;

use super::world::{MINUTE, World, some_hold};
use crate::base::id::{HoldId, Owner};
use crate::store::redis::codec::{
    EnclosedWait, ListedWait, ListedWaits, OuterHold, UpdateWaitReply, lateness,
};
use crate::store::{ClaimVictim, ListHolds, ListWaits, PublishWait, StoreTime, UpdateWait};

on_every_store!(
    a_wait_is_seen_by_each_hold_that_encloses_it,
    a_wait_is_seen_under_each_of_its_owners,
    a_publication_is_refused_unless_the_time_is_known,
    a_publication_that_has_taken_too_long_is_refused,
    a_record_ends_by_itself_unless_it_is_made_again,
    a_wait_that_is_made_again_may_be_enclosed_by_others,
    a_record_is_taken_back_alone,
    the_holds_in_a_lock_are_all_but_its_token,
    all_readers_of_a_lock_are_in_it,
    a_cycle_has_one_victim_for_a_while,
    a_victim_blocks_other_victims_of_its_cycles,
);

const LIFE: Duration = MINUTE.saturating_mul(4);

/// A wait of the owner of the first of these holds.
pub(super) fn wait(enclosing: &[HoldId]) -> EnclosedWait {
    let key = |n: usize| Arc::from(format!("key {n}\nof\n7 8 9"));
    let holds = enclosing.iter().enumerate();
    EnclosedWait {
        id: some_hold(),
        key: key(0),
        enclosing: holds
            .map(|(n, &hold)| OuterHold {
                hold,
                key: key(n + 1),
            })
            .collect(),
    }
}

impl World {
    async fn publish(&self, publication: PublishWait) -> UpdateWaitReply {
        self.send(UpdateWait::Publish(publication)).await
    }

    async fn look(&self, hold: HoldId) -> ListedWaits {
        self.send(ListWaits { hold }).await
    }

    /// Publishes a wait with the owner of this hold.
    async fn publish_now(&self, wait: &EnclosedWait, by: HoldId) {
        let known = Some(self.look(by).await.at);
        let publication = publication(wait, by, known);
        let published = self.publish(publication).await;
        assert!(
            matches!(published, UpdateWaitReply::Done(_)),
            "{published:?}"
        );
    }

    /// The waits that a hold encloses.
    async fn waits(&self, hold: HoldId) -> Vec<EnclosedWait> {
        let look = self.look(hold).await;
        look.waits.into_iter().map(|seen| seen.wait).collect()
    }

    async fn claim(&self, victim: HoldId, others: &[HoldId]) -> bool {
        let claim = ClaimVictim {
            victim,
            others: others.to_vec(),
            life: LIFE,
        };
        self.send(claim).await
    }

    async fn holds_in(&self) -> Vec<HoldId> {
        let key = self.key.as_str().into();
        self.send(ListHolds { key }).await
    }
}

fn publication(wait: &EnclosedWait, by: HoldId, known: Option<StoreTime>) -> PublishWait {
    PublishWait {
        owner: by.owner(),
        wait: Arc::new(wait.clone()),
        life: LIFE,
        known,
    }
}

async fn a_wait_is_seen_by_each_hold_that_encloses_it(world: World) {
    let owner = Owner::new();
    let holds = [(); 12].map(|()| owner.next_hold());
    // The text of the first id is the prefix of those of the last three.
    let (wait, other) = (wait(&holds[..2]), wait(&holds[1..3]));
    world.publish_now(&wait, holds[0]).await;
    world.publish_now(&other, holds[1]).await;
    assert_eq!(world.waits(holds[0]).await, slice::from_ref(&wait));
    assert_eq!(world.waits(holds[2]).await, slice::from_ref(&other));
    let mut both = [wait.clone(), other];
    both.sort_by_key(|wait| wait.id);
    let mut seen = world.waits(holds[1]).await;
    seen.sort_by_key(|wait| wait.id);
    assert_eq!(seen, both);
    for hold in &holds[3..] {
        assert!(world.waits(*hold).await.is_empty());
    }
    assert!(world.waits(wait.id).await.is_empty());
    let look = world.look(holds[0]).await;
    let [ListedWait { stamp, life, .. }] = look.waits[..] else {
        panic!("{look:?}");
    };
    assert_eq!(life, LIFE);
    assert!(look.at.since(stamp).is_some_and(|age| age < MINUTE / 2));
}

async fn a_wait_is_seen_under_each_of_its_owners(world: World) {
    let holds = [some_hold(), some_hold()];
    let wait = wait(&holds);
    world.publish_now(&wait, holds[0]).await;
    assert!(world.waits(holds[1]).await.is_empty());
    world.publish_now(&wait, holds[1]).await;
    for hold in holds {
        assert_eq!(world.waits(hold).await, slice::from_ref(&wait));
    }
}

async fn a_publication_is_refused_unless_the_time_is_known(world: World) {
    let hold = some_hold();
    let wait = wait(&[hold]);
    let first = world.publish(publication(&wait, hold, None)).await;
    let UpdateWaitReply::Late(at) = first else {
        panic!("{first:?}");
    };
    assert!(world.waits(hold).await.is_empty());
    // The reply contains the time.
    let second = world.publish(publication(&wait, hold, Some(at))).await;
    assert!(matches!(second, UpdateWaitReply::Done(made) if made >= at));
    assert_eq!(world.waits(hold).await, [wait]);
}

async fn a_publication_that_has_taken_too_long_is_refused(world: World) {
    let hold = some_hold();
    let wait = wait(&[hold]);
    let now = world.look(hold).await.at.micros;
    let limit = u64::try_from(lateness(LIFE).as_micros()).expect("a span");
    let half_a_minute = 30_000_000;
    for (known, is_refused) in [
        (now - limit - 1, true),
        (now - limit + half_a_minute, false),
        // This is the time of another clock.
        (now + half_a_minute, true),
    ] {
        let known = Some(StoreTime { micros: known });
        let published = world.publish(publication(&wait, hold, known)).await;
        let refused = matches!(published, UpdateWaitReply::Late(at) if at.micros >= now);
        assert_eq!(refused, is_refused, "{published:?}");
    }
}

async fn a_record_ends_by_itself_unless_it_is_made_again(world: World) {
    let owner = Owner::new();
    let [hold, other] = [(); 2].map(|()| owner.next_hold());
    let (kept, left) = (wait(&[hold]), wait(&[other]));
    world.publish_now(&kept, hold).await;
    world.publish_now(&left, other).await;
    world.pass(LIFE - MINUTE).await;
    world.publish_now(&kept, hold).await;
    world.pass(2 * MINUTE).await;
    assert_eq!(world.waits(hold).await, [kept]);
    assert!(world.waits(other).await.is_empty());
    world.pass(LIFE).await;
    assert!(world.waits(hold).await.is_empty());
}

async fn a_wait_that_is_made_again_may_be_enclosed_by_others(world: World) {
    let owner = Owner::new();
    let [before, after] = [(); 2].map(|()| owner.next_hold());
    let first = wait(&[before]);
    let second = EnclosedWait {
        id: first.id,
        ..wait(&[after])
    };
    world.publish_now(&first, before).await;
    world.publish_now(&second, after).await;
    assert!(world.waits(before).await.is_empty());
    assert_eq!(world.waits(after).await, [second]);
}

async fn a_record_is_taken_back_alone(world: World) {
    let hold = some_hold();
    let (wait, other) = (wait(&[hold]), wait(&[hold]));
    world.publish_now(&wait, hold).await;
    world.publish_now(&other, hold).await;
    for _ in 0..2 {
        let (owner, wait) = (hold.owner(), wait.id);
        world.send(UpdateWait::Withdraw { owner, wait }).await;
        assert_eq!(world.waits(hold).await, slice::from_ref(&other));
    }
}

async fn the_holds_in_a_lock_are_all_but_its_token(world: World) {
    let holds = async || world.holds_in().await;
    assert!(holds().await.is_empty());
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    assert_eq!(holds().await, [hold]);
    world.release(hold).await;
    assert!(holds().await.is_empty());
    world.take(hold, MINUTE).await;
    world.pass(2 * MINUTE).await;
    assert!(holds().await.is_empty());
}

async fn all_readers_of_a_lock_are_in_it(world: World) {
    let readers = [some_hold(), some_hold()];
    world.read(&readers, MINUTE).await;
    let mut holds = world.holds_in().await;
    let mut expected = readers.to_vec();
    holds.sort_unstable();
    expected.sort_unstable();
    assert_eq!(holds, expected);
}

async fn a_cycle_has_one_victim_for_a_while(world: World) {
    let [one, other] = [(); 2].map(|()| some_hold());
    assert!(world.claim(one, &[other]).await);
    for _ in 0..2 {
        // This is a repetition, as after a lost response.
        assert!(world.claim(one, &[other]).await);
        assert!(!world.claim(other, &[one]).await);
    }
    world.pass(LIFE + MINUTE).await;
    assert!(world.claim(other, &[one]).await);
    assert!(!world.claim(one, &[other]).await);
}

/// The least wait is part of several cycles.
async fn a_victim_blocks_other_victims_of_its_cycles(world: World) {
    let mut waits = [(); 4].map(|()| some_hold());
    waits.sort_unstable();
    let [least, gone, second, third] = waits;
    assert!(world.claim(gone, &[least]).await);
    // This is part of another cycle. The first victim is not part of it, and may be gone.
    assert!(world.claim(second, &[third, least]).await);
    assert!(!world.claim(least, &[second]).await);
    assert!(!world.claim(third, &[second, least]).await);
    assert!(!world.claim(third, &[least, gone]).await);
    assert!(world.claim(third, &[least]).await);
    world.pass(LIFE + MINUTE).await;
    assert!(world.claim(least, &[gone, second, third]).await);
}

#[tokio::test]
async fn whatever_is_published_expires() {
    let world = World::on_redis().await;
    let hold = some_hold();
    world.publish_now(&wait(&[hold]), hold).await;
    world.claim(hold, &[]).await;
    let immortal = world.server().immortal().await;
    assert!(immortal.is_empty(), "{immortal:?}");
    world.pass(LIFE + MINUTE).await;
    let mut connection = world.server().connection.clone();
    let left: Vec<String> = connection.keys("*").await.expect("keys");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn an_unreadable_record_of_a_wait_is_ignored() {
    let world = World::on_redis().await;
    let hold = some_hold();
    let (wait, victim) = (wait(&[hold]), format!("reentry:victim:{hold}"));
    let waits = format!("reentry:waits:{{{}}}", hold.owner());
    let mut connection = world.server().connection.clone();
    let () = connection.set(&waits, "a text").await.expect("SET");
    let () = connection.set(&victim, "a text").await.expect("SET");
    let () = connection
        .set(world.key.as_str(), "a text")
        .await
        .expect("SET");
    assert!(world.waits(hold).await.is_empty());
    assert!(world.holds_in().await.is_empty());
    world.publish_now(&wait, hold).await;
    assert!(world.claim(hold, &[]).await);
    assert_eq!(world.waits(hold).await, slice::from_ref(&wait));

    let endless = format!("1 9000000000000000 {hold} x\n");
    for (id, record) in [
        ("x", "y"),
        ("y", &*endless),
        (&*hold.to_string(), &*endless),
    ] {
        let () = connection.hset(&waits, id, record).await.expect("HSET");
    }
    assert_eq!(world.waits(hold).await, [wait]);
}

#[tokio::test]
async fn fields_of_other_programs_are_no_holds() {
    let world = World::on_redis().await;
    let hold = some_hold();
    world.take(hold, MINUTE).await;
    let mut connection = world.server().connection.clone();
    for field in ["a program", "4F0E1D2C-0000-4000-8000-000000000000:1", ""] {
        let () = connection.hset("app:order", field, 1).await.expect("HSET");
    }
    let () = connection
        .hset("app:order", b"\xff", 1)
        .await
        .expect("HSET");
    assert_eq!(world.holds_in().await, [hold]);
}

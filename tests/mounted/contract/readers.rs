//! Holds that share a lock: which of them enter, for how long, and which follow them.

use std::time::Duration;

use super::world::{
    FULL, GRANT, MINUTE, UNANSWERED, World, near, release_request, some_hold, some_waiter,
};
use crate::base::id::{FencingToken, HoldId, InboxId};
use crate::base::options::Mode;
use crate::store::{
    AcquireReply, AcquireShared, AcquireSharedRequest, Presence, QueueEntry, ReleaseKind,
    ReleaseRequest, RenewReaders,
};

pub(super) mod changes;
pub(super) mod turns;

on_every_store!(
    readers_share_a_lock_and_its_token,
    a_writer_is_kept_out_by_readers_and_keeps_them_out,
    a_reader_that_asks_again_has_its_token_and_never_a_shorter_lease,
    the_lock_lasts_as_long_as_its_last_reader,
    a_dead_reader_keeps_no_writer_out,
    a_reader_that_ended_is_not_let_in,
    one_request_renews_the_readers_of_a_process,
    a_renewal_of_readers_removes_dead_readers,
);

const TTL: Duration = MINUTE.saturating_mul(9);

pub(super) fn share_request(
    holds: &[HoldId],
    ttl: Duration,
    entry: Option<QueueEntry>,
) -> AcquireSharedRequest {
    AcquireSharedRequest {
        holds: holds.to_vec(),
        ttl,
        limit: None,
        entry,
    }
}

impl World {
    pub(super) async fn share_as(&self, request: AcquireSharedRequest) -> Vec<AcquireReply> {
        let key = self.key.clone();
        self.send(AcquireShared { key, request }).await
    }

    /// Readers send a request, and all of them must get the lock, with leases of at least the TTL.
    pub(super) async fn read(&self, holds: &[HoldId], ttl: Duration) -> FencingToken {
        let replies = self.share_as(share_request(holds, ttl, None)).await;
        let tokens: Vec<_> = replies.iter().filter_map(token).collect();
        assert_eq!(tokens.len(), holds.len(), "{replies:?}");
        assert!(tokens.windows(2).all(|pair| pair[0] == pair[1]));
        tokens[0]
    }

    /// Readers send a request, and wait.
    pub(super) async fn read_later(&self, holds: &[HoldId], entry: QueueEntry) {
        let replies = self.share_as(share_request(holds, TTL, Some(entry))).await;
        let waits = |reply: &AcquireReply| matches!(reply, AcquireReply::Busy { .. });
        assert!(replies.iter().all(waits), "{replies:?}");
    }

    pub(super) async fn keep(&self, holds: &[HoldId], ttl: Duration) -> Vec<HoldId> {
        let (key, holds) = (self.key.clone(), holds.to_vec());
        self.send(RenewReaders { key, holds, ttl }).await
    }

    pub(super) async fn release_shared(&self, hold: HoldId, inbox: InboxId) -> Presence {
        let request = ReleaseRequest {
            inbox,
            ..shared_release(hold, FULL)
        };
        self.end(request).await
    }

    /// The readers inside, with their remaining leases.
    pub(super) async fn readers(&self) -> Vec<(String, Duration)> {
        let snapshot = self.inspect().await.expect("a held lock");
        assert!(snapshot.is_shared);
        let reader = |holder: crate::store::verbs::inspect::HolderField| {
            let field = String::from_utf8(holder.field).expect("a hold");
            (field, holder.remaining.expect("a lease of its own"))
        };
        snapshot.holders.into_iter().map(reader).collect()
    }

    /// Returns whether these readers are inside, and no other hold is.
    pub(super) async fn is_read_by(&self, holds: &[HoldId]) -> bool {
        let mut inside = self.holders().await;
        let mut holds: Vec<_> = holds.iter().map(|hold| (hold.to_string(), 1)).collect();
        inside.sort();
        holds.sort();
        inside == holds
    }
}

fn token(reply: &AcquireReply) -> Option<FencingToken> {
    match reply {
        AcquireReply::Held { token, .. } => Some(*token),
        _ => None,
    }
}

pub(super) fn shared_release(hold: HoldId, end: ReleaseKind) -> ReleaseRequest {
    ReleaseRequest {
        mode: Mode::Shared,
        ..release_request(hold, end)
    }
}

async fn readers_share_a_lock_and_its_token(world: World) {
    let [one, two, other] = [some_hold(), some_hold(), some_hold()];
    let token = world.read(&[one, two], TTL).await;
    assert_eq!(world.read(&[other], TTL).await, token);
    assert!(world.is_read_by(&[one, two, other]).await);
    let snapshot = world.inspect().await.expect("a held lock");
    assert_eq!((snapshot.is_shared, snapshot.token), (true, Some(token)));
    assert_eq!(
        world.release_shared(two, InboxId::new()).await,
        Presence::Present
    );
    assert_eq!(
        world.release_shared(two, InboxId::new()).await,
        Presence::Gone
    );
    assert!(world.is_read_by(&[one, other]).await);
    for hold in [one, other] {
        assert_eq!(
            world.release_shared(hold, InboxId::new()).await,
            Presence::Present
        );
    }
    assert_eq!(world.inspect().await, None);
}

async fn a_writer_is_kept_out_by_readers_and_keeps_them_out(world: World) {
    let [reader, writer] = [some_hold(), some_hold()];
    world.read(&[reader], TTL).await;
    let busy = world.acquire(writer, TTL).await;
    assert!(matches!(busy, AcquireReply::Busy { remaining: Some(left), .. } if near(left, TTL)));
    world.release_shared(reader, InboxId::new()).await;
    world.take(writer, TTL).await;
    let busy = world.share_as(share_request(&[reader], TTL, None)).await;
    assert!(
        matches!(busy[..], [AcquireReply::Busy { remaining: Some(left), .. }] if near(left, TTL))
    );
    assert!(world.is_held(writer, TTL).await);
}

async fn a_reader_that_asks_again_has_its_token_and_never_a_shorter_lease(world: World) {
    let hold = some_hold();
    let first = world.read(&[hold], TTL).await;
    assert_eq!(world.read(&[hold], MINUTE).await, first);
    assert!(near(world.readers().await[0].1, TTL));
    assert_eq!(world.read(&[hold], 2 * TTL).await, first);
    assert!(near(world.readers().await[0].1, 2 * TTL));
    assert!(world.is_read_by(&[hold]).await);
}

/// This also covers a release that names only its hold.
async fn the_lock_lasts_as_long_as_its_last_reader(world: World) {
    for end in [FULL, ReleaseKind::Short] {
        let [short, long] = [some_hold(), some_hold()];
        world.read(&[short], MINUTE * 3).await;
        world.read(&[long], TTL).await;
        assert!(near(world.remaining().await, TTL));
        let leaves = world.end(shared_release(long, end)).await;
        assert_eq!(leaves, Presence::Present);
        assert!(near(world.remaining().await, 3 * MINUTE));
        world.pass(4 * MINUTE).await;
        assert_eq!(world.inspect().await, None);
    }
    world.take(some_hold(), TTL).await;
}

/// The others renew, and leave. The dead one must not outlast its own lease.
async fn a_dead_reader_keeps_no_writer_out(world: World) {
    let [dead, other] = [some_hold(), some_hold()];
    let (writer, entry) = some_waiter();
    world.read(&[dead], 3 * MINUTE).await;
    world.read(&[other], TTL).await;
    world.pass(4 * MINUTE).await;
    world.wait(writer, TTL, entry).await;
    assert!(world.is_read_by(&[other]).await);
    world.release_shared(other, InboxId::new()).await;
    assert!(world.is_held(writer, GRANT).await);
}

async fn a_reader_that_ended_is_not_let_in(world: World) {
    let [ended, other] = [some_hold(), some_hold()];
    let request_of_end = shared_release(ended, ReleaseKind::Full(UNANSWERED));
    assert_eq!(world.end(request_of_end).await, Presence::Gone);
    let alone = world.share_as(share_request(&[ended], TTL, None)).await;
    assert_eq!(alone, [AcquireReply::Ended]);
    let both = world
        .share_as(share_request(&[ended, other], TTL, None))
        .await;
    assert!(token(&both[1]).is_some() && token(&both[0]).is_none());
    assert!(world.is_read_by(&[other]).await);
}

async fn one_request_renews_the_readers_of_a_process(world: World) {
    let holds = [some_hold(), some_hold(), some_hold()];
    world.read(&holds, 3 * MINUTE).await;
    let gone = some_hold();
    let all: Vec<_> = holds.iter().copied().chain([gone]).collect();
    assert_eq!(world.keep(&all, TTL).await, [gone]);
    assert!(
        world
            .readers()
            .await
            .iter()
            .all(|(_, left)| near(*left, TTL))
    );
    // A late renewal does not shorten anything.
    assert_eq!(world.keep(&holds, MINUTE).await, []);
    assert!(near(world.remaining().await, TTL));
}

async fn a_renewal_of_readers_removes_dead_readers(world: World) {
    let [dead, other] = [some_hold(), some_hold()];
    world.read(&[dead], 3 * MINUTE).await;
    world.read(&[other], TTL).await;
    world.pass(4 * MINUTE).await;
    assert_eq!(world.keep(&[other], TTL).await, []);
    assert!(world.is_read_by(&[other]).await);
    assert_eq!(world.keep(&[dead], TTL).await, [dead]);
}

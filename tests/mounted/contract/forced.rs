//! The message to all processes that holds were ended by force.

use std::sync::{Arc, Weak};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::inbox::Inbox;
use super::world::{MINUTE, World, field_of, some_hold};
use crate::base::id::{HoldId, InboxId};
use crate::store::{ForcedMessage, ForcedReleaseListener, SeenHolders};
use crate::support::{DEADLINE, within};

on_every_store!(
    every_process_gets_a_message_about_the_ended_holds,
    a_forced_release_that_ends_nothing_sends_no_message,
);

/// A process that records the messages that it gets.
struct Recorder(UnboundedSender<ForcedMessage>);

impl ForcedReleaseListener for Recorder {
    fn forced(&self, message: ForcedMessage) {
        let _ = self.0.send(message);
    }
}

/// A process, and the messages that it has got.
struct Watching {
    told: UnboundedReceiver<ForcedMessage>,
    /// A store has only weak references to its receivers.
    _holders: Arc<dyn ForcedReleaseListener>,
    /// The inbox of the process, with its store, if that is not the one of the test.
    _inbox: Option<Inbox>,
}

async fn watch(world: &World) -> Watching {
    let (sender, told) = unbounded_channel();
    let recorder: Arc<dyn ForcedReleaseListener> = Arc::new(Recorder(sender));
    let holders: Weak<dyn ForcedReleaseListener> = Arc::downgrade(&recorder);
    let inbox = match world.any_server() {
        Some(server) => {
            let store = server.watching_store(holders).await;
            Some(Inbox::of(store, InboxId::new()).await)
        }
        None => {
            world.store.watch(holders);
            None
        }
    };
    Watching {
        told,
        _holders: recorder,
        _inbox: inbox,
    }
}

async fn next(watching: &mut Watching) -> Vec<HoldId> {
    let told = watching.told.recv();
    let message = within(DEADLINE, "the process is told", told).await;
    let ForcedMessage { key, holds } = message.expect("a message");
    assert_eq!(key, "app:order");
    holds
}

async fn every_process_gets_a_message_about_the_ended_holds(world: World) {
    let mut process = watch(&world).await;
    for _ in 0..2 {
        let holder = some_hold();
        world.take(holder, MINUTE).await;
        assert!(world.force_release(world.seen().await).await);
        assert_eq!(next(&mut process).await, [holder]);
    }
    let readers = [some_hold(), some_hold()];
    world.read(&readers, MINUTE).await;
    assert!(world.force_release(world.seen().await).await);
    let mut ended = next(&mut process).await;
    ended.sort_unstable();
    let mut readers = Vec::from(readers);
    readers.sort_unstable();
    assert_eq!(ended, readers);
}

async fn a_forced_release_that_ends_nothing_sends_no_message(world: World) {
    let mut process = watch(&world).await;
    let (holder, other) = (some_hold(), some_hold());
    world.take(holder, MINUTE).await;
    let wrong = SeenHolders {
        fields: vec![field_of(other)],
        token: None,
    };
    assert!(!world.force_release(wrong).await);
    assert!(world.force_release(world.seen().await).await);
    assert_eq!(next(&mut process).await, [holder]);
}

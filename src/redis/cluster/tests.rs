//! The effect of a redirection on the holds of its slot, and the frequency with which the map is learnt.

use super::*;
use crate::base::key::SLOTS;
use crate::redis::ServerSpec;
use crate::redis::context::Timeouts;

/// The holds are verified. The map that is learnt after it shows no change of that slot.
#[tokio::test]
async fn a_redirection_begins_a_generation_once() {
    let [before, after] = [1, 2].map(|port| HostPort::new("127.0.0.1", port));
    let timeouts = Timeouts {
        connect: Duration::from_secs(1),
        response: Duration::from_secs(1),
    };
    let context = ConnectorContext::new(timeouts);
    let server = ServerSpec::parse("redis://127.0.0.1:1")
        .expect("a URL")
        .server;
    let cluster = Cluster::new(server, vec![before.clone()], Arc::clone(&context));
    let owner = cluster.new_node(&before);
    cluster.state.lock().slots = vec![Some(owner); usize::from(SLOTS)];
    for _ in 0..2 {
        drop(cluster.note_move(7, &after));
    }
    assert_eq!(context.generation.number(), 1);
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_slot_map_that_stays_wrong_is_fetched_rarely() {
    let (mut state, begun) = (ClusterState::new(), Instant::now());
    let (mut now, mut times) = (begun, 0);
    while now < begun + 10_000 * MS {
        state.note_learning(now);
        times += 1;
        now = state.learns_at;
    }
    assert!((16..=5 + 34).contains(&times), "{times}");
    // Long after that it is learnt immediately, and soon again.
    let later = now + MAP_SETTLES_AFTER;
    assert!(state.learns_at < later);
    state.note_learning(later);
    assert_eq!(state.learns_at - later, MIN_LEARN_PAUSE);
}

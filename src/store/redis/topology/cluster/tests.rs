//! What a redirection means for the holds of its slot.

use std::sync::Arc;
use std::time::Duration;

use super::Cluster;
use crate::base::key::SLOTS;
use crate::store::redis::connect::common::Common;
use crate::store::redis::link::address::{Address, Place};
use crate::store::redis::link::outages::Outages;
use crate::store::redis::link::source::Timeouts;

/// The holds there are verified; the map that is learnt after it shows no change of that slot.
#[tokio::test]
async fn a_redirection_is_an_outage_of_its_slot_once() {
    let [before, after] = [1, 2].map(|port| Place::new("127.0.0.1", port));
    let timeouts = Timeouts {
        connect: Duration::from_secs(1),
        response: Duration::from_secs(1),
    };
    let common = Common::new(timeouts, Outages::of_slots());
    let outages = Arc::clone(&common.outages);
    let server = Address::parse("redis://127.0.0.1:1").expect("a URL");
    let cluster = Arc::new(Cluster::new(server, vec![before.clone()], common));
    let owner = cluster.new_node(&before);
    cluster.known.lock().slots = vec![Some(owner); usize::from(SLOTS)];
    for _ in 0..2 {
        drop(cluster.moved(7, &after));
    }
    assert_eq!((outages.of(|| 7), outages.of(|| 8)), (1, 0));
}

//! The additional cost of a section with several known servers, of which one has all locks.
//!
//! Each table is for one server. Its control is this server on its own, twice.

use super::bench::{Times, report};
use super::rounds;
use crate::support::sentinel::NAME;
use crate::support::{RedisServer, SentinelSet, cluster};
use reentry::Locks;

/// The number of warm-up rounds.
const WARM: usize = 500;

pub(crate) async fn measure() {
    let node = cluster::alone().await;
    let cluster = format!("redis+cluster://{}", node.address());
    compare("a cluster of one node", &node, "redis+cluster://", &cluster).await;
    drop(node);

    let set = SentinelSet::start().await;
    let sentinels = format!("redis+sentinel://{}/{NAME}", set.addresses());
    let primary = &set.nodes[0];
    let title = "a primary with two replicas and three sentinels";
    compare(title, primary, "redis+sentinel://", &sentinels).await;
}

async fn compare(title: &str, server: &RedisServer, name: &'static str, url: &str) {
    let connect = async |url: &str| Locks::connect(url).await.expect("a server");
    let one = server.url();
    let mut contestants = [
        (Times::new("redis:// (control)"), connect(&one).await),
        (Times::new("redis:// once more"), connect(&one).await),
        (Times::new(name), connect(url).await),
    ];
    let mut order = [0, 1, 2];
    for round in 0..rounds(20_000) + WARM {
        if round == WARM {
            for (times, _) in &mut contestants {
                *times = Times::new(times.name);
            }
        }
        // Replicas continue to work after a response. So no contestant always follows the same one.
        fastrand::shuffle(&mut order);
        for place in order {
            let (times, locks) = &mut contestants[place];
            let section = async { locks.with_lock("order:42", async {}).await };
            times.sample(section).await.expect("a free lock");
        }
    }
    let [one, again, many] = &contestants;
    report(title, &[&one.0, &again.0, &many.0]);
}

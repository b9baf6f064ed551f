//! The description of a process in a cluster: one server has it, whichever servers have the locks.

use crate::cluster::kit::patient_in;
use crate::support::{Cluster, DEADLINE, eventually};
use reentry::__admin::Ids as _;

/// The servers that have a description, by their numbers.
async fn described(cluster: &Cluster) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, node) in cluster.nodes.iter().enumerate().take(3) {
        let keys = node.ask("KEYS reentry:process:*").await;
        found.extend(
            keys.lines()
                .filter(|key| !key.is_empty())
                .map(|key| (number, key.to_owned())),
        );
    }
    found
}

#[tokio::test]
async fn one_server_of_a_cluster_has_the_description_of_a_process() {
    let cluster = Cluster::start().await;
    let locks = patient_in(&cluster).build().await.unwrap();
    let one = async || described(&cluster).await.len() == 1;
    eventually(DEADLINE, "the process is described", one).await;
    let [(node, key)] = &described(&cluster).await[..] else {
        panic!("one server has it");
    };
    assert_eq!(cluster.owner_of(key).await, *node);
    let guard = locks.lock("order:42").await.unwrap();
    let owner = guard.held().owner().to_string().replace('-', "");
    assert_eq!(*key, format!("reentry:process:{}", &owner[..12]));
}

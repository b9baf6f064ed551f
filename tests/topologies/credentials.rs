//! A password that is rotated, when there is more than one server.

use crate::cluster::kit::patient_in;
use crate::sentinel::ground::{built_at, url};
use crate::support::rotation::Rotation;
use crate::support::{Cluster, DEADLINE, SentinelSet};

/// The number of rotations.
const TIMES: u32 = 3;

#[tokio::test]
async fn no_hold_is_lost_behind_sentinels_while_the_password_is_rotated() {
    let set = SentinelSet::start().await;
    let mut rotation = Rotation::begin(set.nodes.iter().collect()).await;
    let builder = built_at(url(&set)).response_timeout(DEADLINE);
    rotation.loses_no_hold(builder, TIMES).await;
}

#[tokio::test]
async fn no_hold_is_lost_in_a_cluster_while_the_password_is_rotated() {
    let cluster = Cluster::start().await;
    let mut rotation = Rotation::begin(cluster.nodes.iter().collect()).await;
    rotation.loses_no_hold(patient_in(&cluster), TIMES).await;
}

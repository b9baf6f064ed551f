//! Passwords, and the features that a cluster does not have.

use super::kit::{PATIENCE, keys, patient_in, until_nothing_is_left};
use crate::support::told::cause_of;
use crate::support::{Cluster, cluster, patient_at, within};
use reentry::LockError;
use std::fs;

#[tokio::test]
async fn every_node_is_told_the_password() {
    let cluster = Cluster::start_with(cluster::Config {
        nodes: &["--requirepass", "secret"],
        ..cluster::Config::default()
    })
    .await;
    let keys = keys(&cluster).await;
    let url = format!("redis+cluster://:secret@{}", cluster.seeds());
    let told = || patient_in(&cluster);
    for builder in [told().login("default", "secret"), patient_at(url)] {
        let locks = builder.wait(PATIENCE).build().await.unwrap();
        for key in &keys {
            locks.with_lock(key, async {}).await.unwrap();
        }
    }
    let locks = told().login("default", "wrong");
    let built = within(PATIENCE, "the refusal", locks.clone().build()).await;
    assert!(matches!(&built, Err(LockError::Misuse { .. })), "{built:?}");
    assert!(!format!("{:?}", built.unwrap_err()).contains("wrong"));
    // It is permanent: no caller waits for it to end.
    let refused = locks.build_lazy().unwrap();
    let refused = refused.lock(&keys[0]).acquire();
    let refused = within(PATIENCE / 2, "the refusal", refused).await;
    assert!(refused.unwrap_err().is_misuse());
    until_nothing_is_left(&cluster).await;
}

/// The rights of `docs/operations.md`, and what it adds for a cluster.
fn rules() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    let rules = page
        .lines()
        .find_map(|line| line.strip_prefix("ACL SETUSER locker"));
    let further = "+cluster|slots +cluster|nodes +asking +wait +set +script|load";
    format!("{} {further}", rules.unwrap().replace("~app:*", "~order:*"))
}

#[tokio::test]
async fn a_user_with_these_rights_and_no_others_has_all_that_it_needs() {
    let cluster = Cluster::start().await;
    let keys = keys(&cluster).await;
    for node in &cluster.nodes {
        node.ask(&format!("ACL SETUSER locker {}", rules())).await;
    }
    let locks = patient_in(&cluster)
        .login("locker", "password")
        .confirm(1, PATIENCE)
        .build()
        .await
        .unwrap();
    for key in &keys {
        locks.with_lock(key, async {}).await.unwrap();
    }
    let slot = cluster.slot_of(&keys[0]).await;
    cluster.move_slot(slot, 1).await;
    locks.with_lock(&keys[0], async {}).await.unwrap();
    for node in &cluster.nodes {
        let refused = node.ask("ACL LOG").await;
        let refused: Vec<_> = refused.lines().collect();
        let commands = refused.windows(2).filter(|pair| pair[0] == "object");
        // The driver ignores that it cannot set its name.
        let commands = commands.filter(|pair| !pair[1].starts_with("client"));
        assert_eq!(commands.count(), 0, "{:?}: {refused:?}", node.address());
    }
    until_nothing_is_left(&cluster).await;
}

/// It has a third of the keys, and knows which servers have the others. Only a program that asks a cluster learns that.
#[tokio::test]
async fn a_server_of_a_cluster_at_an_address_of_its_own_refuses_the_keys_of_others() {
    let cluster = Cluster::start().await;
    let locks = patient_at(cluster.nodes[0].url()).wait(PATIENCE);
    let locks = locks.build().await.unwrap();
    let keys = keys(&cluster).await;
    locks.with_lock(&keys[0], async {}).await.unwrap();
    for key in &keys[1..] {
        let refused = within(PATIENCE / 2, "the refusal", locks.with_lock(key, async {})).await;
        let error = refused.unwrap_err();
        let cause = cause_of(&error);
        assert!(
            error.is_misuse() && cause.contains("use `redis+cluster://`"),
            "{error:?}"
        );
    }
    until_nothing_is_left(&cluster).await;
}

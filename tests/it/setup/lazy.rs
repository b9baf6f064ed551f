//! A `Locks` that connects when it is first used.

use crate::support::runtime::runtime;
use crate::support::{DEADLINE, RedisServer, Rig, eventually, patient, patient_at};

#[tokio::test]
async fn build_lazy_connects_at_the_first_use() {
    let rig = Rig::start().await;
    let before = rig.proxy.connections();
    let locks = patient_at(rig.proxy.url()).build_lazy().unwrap();
    tokio::task::yield_now().await;
    assert_eq!(rig.proxy.connections(), before);
    locks.with_lock("key", async {}).await.unwrap();
    let connected = async || rig.proxy.connections() > before;
    eventually(DEADLINE, "it is connected", connected).await;
}

#[test]
fn build_lazy_needs_no_runtime() {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    let locks = patient(&server).build_lazy().unwrap();
    for _ in 0..2 {
        let visit = locks.with_lock("key", async {});
        runtime().block_on(visit).unwrap();
    }
}

//! A `Locks` that connects when it is first used.

use crate::support::runtime::runtime;
use crate::support::{DEADLINE, RedisServer, Rig, eventually, patient, patient_at};

#[tokio::test]
async fn nothing_is_sent_until_it_is_used() {
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
fn it_is_built_outside_of_a_runtime() {
    let ground = runtime();
    let server = ground.block_on(RedisServer::start());
    let locks = patient(&server).build_lazy().unwrap();
    for _ in 0..2 {
        let visit = locks.with_lock("key", async {});
        runtime().block_on(visit).unwrap();
    }
}

//! `reentry doctor` at a server that cannot write to its disk.

use super::kit::run;
use crate::support::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_a_full_disk() {
    let server = RedisServer::start().await;
    for (fills, is_told) in [(false, false), (true, true)] {
        if fills {
            server.fill_disk().await;
        }
        let ended = run(&server.url(), &["doctor"]).await;
        let is_shown = ended.out.contains("the server rejects all writes");
        assert_eq!(is_shown, is_told, "{ended:?}");
    }
    server
        .ask("CONFIG SET stop-writes-on-bgsave-error no")
        .await;
    let ended = run(&server.url(), &["doctor"]).await;
    assert!(!ended.out.contains("the server rejects"), "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

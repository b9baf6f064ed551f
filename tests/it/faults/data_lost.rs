//! P6 when another program takes the lock away or replaces it, and the scripts when the server forgets them.

use crate::support::rig::KEY;
use crate::support::told::cause_of;
use crate::support::{DEADLINE, Rig, eventually, within};
use reentry::LockError;

fn never() {
    panic!("the body of a lock that is not held");
}

#[tokio::test]
async fn something_else_at_the_key_is_a_misuse_that_names_it_and_stays() {
    let rig = Rig::start().await;
    for (put, kind) in [
        ("SET order:42 precious", "string"),
        ("RPUSH order:42 precious", "list"),
        ("ZADD order:42 1 precious", "zset"),
    ] {
        rig.server.ask(put).await;
        let locked = rig.locks.with_lock(KEY, async { never() });
        // This is immediate, and not after the wait.
        let refused = within(DEADLINE / 2, "it is refused", locked).await;
        let error = refused.unwrap_err();
        assert!(error.is_misuse() && !error.is_unavailable(), "{error:?}");
        assert_eq!(
            error.to_string(),
            "`order:42` holds something other than a lock: does another program use this key, for example with SET NX?"
        );
        assert_eq!(error.key(), Some(KEY));
        let cause = cause_of(&error);
        assert!(cause.contains("WRONGTYPE"), "{cause}");
        for neighbour in [
            rig.locks.admin().inspect(KEY).await.map(drop),
            rig.locks.admin().force_release(KEY).await.map(drop),
            rig.locks.lock(KEY).try_acquire().await.map(drop),
            rig.locks.lock(KEY).read().acquire().await.map(drop),
            rig.locks.lock(KEY).read().run(async {}).await,
            rig.locks.lock_all([KEY, "order:43"]).await.map(drop),
        ] {
            let error = neighbour.unwrap_err();
            assert!(error.is_misuse() && !error.is_unavailable(), "{error:?}");
        }
        assert_eq!(rig.server.ask("TYPE order:42").await, kind);
        assert_eq!(rig.server.ask("PTTL order:42").await, "-1");
        assert_eq!(rig.server.key_count().await, 1, "and nothing beside it");
        rig.server.ask("DEL order:42").await;
        rig.locks.with_lock(KEY, async {}).await.unwrap();
        rig.server.ask("FLUSHALL").await;
    }
}

#[tokio::test]
async fn of_several_keys_the_one_that_is_no_lock_is_named_and_none_is_taken() {
    let rig = Rig::start().await;
    let keys = ["b", "c", KEY];
    for wrong in keys {
        rig.server.ask(&format!("SET {wrong} precious")).await;
        let several = || rig.locks.lock_all(keys);
        for request in [several(), several().no_wait()] {
            let error = request.await.unwrap_err();
            assert!(matches!(error, LockError::Misuse { .. }), "{error}");
            assert_eq!(error.key(), Some(wrong), "{error}");
            let alone = async || rig.server.key_count().await == 1;
            eventually(DEADLINE, "nothing is taken", alone).await;
        }
        assert_eq!(rig.server.ask(&format!("GETDEL {wrong}")).await, "precious");
    }
}

//! The tokens that the fence accepts, one transaction after the other.

use reentry::FencingToken;

use super::ground::{Ground, on_each_database};

const KEY: &str = "order:42";

on_each_database!(
    a_smaller_token_is_refused_and_no_other,
    keys_are_compared_byte_for_byte,
    every_token_fits,
    the_setup_may_be_repeated,
);

/// One holder writes several times, with one token.
async fn a_smaller_token_is_refused_and_no_other(ground: Ground) {
    let mut session = ground.session();
    let mut accepted = Vec::new();
    for token in [5, 5, 6, 5, 6, 1_795_401_363_314_611, 6, 7] {
        let answer = session.enter(KEY, token).await;
        let is_refused = answer.is_refused();
        if is_refused {
            session.roll_back().await;
        } else {
            answer.done();
            session.commit().await;
            accepted.push(token);
        }
    }
    assert_eq!(accepted, [5, 5, 6, 6, 1_795_401_363_314_611]);
}

async fn keys_are_compared_byte_for_byte(ground: Ground) {
    let mut session = ground.session();
    let keys = ["a", "A", "a ", "ä", "a\u{308}", "", "%"];
    for (key, token) in keys.into_iter().zip((1..100).rev()) {
        session.enter(key, token).await.done();
        session.commit().await;
    }
}

async fn every_token_fits(ground: Ground) {
    let mut session = ground.session();
    for token in [0, 1, (1 << 53) - 1, u64::MAX] {
        let token = FencingToken::from(token).as_i64();
        session.enter(KEY, token).await.done();
        session.commit().await;
    }
    assert!(session.enter(KEY, i64::MAX - 1).await.is_refused());
}

async fn the_setup_may_be_repeated(ground: Ground) {
    let mut session = ground.session();
    session.enter(KEY, 2).await.done();
    session.commit().await;
    let setup = session.database.sql().setup();
    session.run(setup).await.done();
    assert!(session.enter(KEY, 1).await.is_refused());
}

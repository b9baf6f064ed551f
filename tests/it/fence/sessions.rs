//! Two sessions at one key: the transactions follow each other, in the order of their tokens.

use futures_util::future::join_all;

use super::ground::{Ground, on_each_database};
use super::session::Session;

on_each_database!(
    a_later_holder_waits_for_an_earlier_one_and_sees_its_work,
    an_earlier_holder_that_comes_second_is_refused,
    a_later_holder_goes_on_where_an_earlier_one_is_undone,
    holders_that_come_at_once_commit_in_the_order_of_their_tokens,
);

/// The second of two sessions at a key, with its identity.
struct Second {
    id: String,
    session: Session,
}

impl Second {
    async fn new(ground: &Ground) -> Self {
        let mut session = ground.session();
        let id = ground.id(&mut session).await;
        Self { id, session }
    }

    /// Begins a transaction, which waits for the one that is open.
    async fn come(&mut self, ground: &Ground, key: &str, token: i64) {
        self.session.send_enter(key, token);
        ground.until_waiting(&self.id).await;
    }
}

/// A key that is used for the first time, and one that is not.
async fn keys(session: &mut Session) -> [&'static str; 2] {
    session.enter("known", 1).await.done();
    session.commit().await;
    ["known", "new"]
}

async fn a_later_holder_waits_for_an_earlier_one_and_sees_its_work(ground: Ground) {
    let (mut old, mut new) = (ground.session(), Second::new(&ground).await);
    for (key, turn) in keys(&mut old).await.into_iter().zip(1..) {
        old.enter(key, 5).await.done();
        old.add(1).await;
        new.come(&ground, key, 6).await;
        old.commit().await;
        new.session.answer().await.done();
        assert_eq!(new.session.balance().await, turn);
        new.session.commit().await;
        // It was in the middle of its work, and continues.
        assert!(old.enter(key, 5).await.is_refused());
        old.roll_back().await;
    }
}

async fn an_earlier_holder_that_comes_second_is_refused(ground: Ground) {
    let (mut new, mut old) = (ground.session(), Second::new(&ground).await);
    for (key, turn) in keys(&mut new).await.into_iter().zip(1..) {
        new.enter(key, 6).await.done();
        new.add(1).await;
        old.come(&ground, key, 5).await;
        new.commit().await;
        assert!(old.session.answer().await.is_refused());
        old.session.roll_back().await;
        assert_eq!(new.balance().await, turn);
    }
}

/// It rolls back, or its connection dies.
async fn a_later_holder_goes_on_where_an_earlier_one_is_undone(ground: Ground) {
    let mut new = Second::new(&ground).await;
    for (key, dies) in keys(&mut new.session).await.into_iter().zip([false, true]) {
        let mut old = ground.session();
        old.enter(key, 5).await.done();
        old.add(1).await;
        new.come(&ground, key, 6).await;
        if dies {
            old.die();
        } else {
            old.roll_back().await;
        }
        new.session.answer().await.done();
        assert_eq!(new.session.balance().await, 0);
        new.session.commit().await;
        assert!(ground.session().enter(key, 5).await.is_refused());
    }
}

/// Whichever comes first to a key that is used for the first time, those that come too late are rejected.
async fn holders_that_come_at_once_commit_in_the_order_of_their_tokens(ground: Ground) {
    let mut sessions: [Session; 5] = ground.sessions();
    let table = "CREATE TABLE written (place BIGINT PRIMARY KEY, token BIGINT)";
    sessions[0].run(table).await.done();
    for key in ["one", "two", "three", "four"] {
        let before = written(&mut sessions[0]).await.len();
        let holders = sessions.iter_mut().zip(1..);
        let commits = join_all(holders.map(async |(session, token)| {
            let entered = session.enter(key, token).await;
            if entered.is_refused() {
                session.roll_back().await;
                return 0;
            }
            entered.done();
            let insert = "INSERT INTO written SELECT COALESCE(MAX(place), 0) + 1";
            let insert = format!("{insert}, {token} FROM written");
            session.run(&insert).await.done();
            session.commit().await;
            1
        }));
        let count: usize = commits.await.into_iter().sum();
        let all = written(&mut sessions[0]).await;
        let (_, tokens) = all.split_at(before);
        assert_eq!(tokens.len(), count);
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        assert_eq!(tokens.last(), Some(&5));
    }
}

/// The tokens of the writes, in the order of the commits.
async fn written(session: &mut Session) -> Vec<i64> {
    let rows = session
        .run("SELECT token FROM written ORDER BY place")
        .await;
    let rows = rows.done().into_iter();
    rows.map(|row| row.parse().unwrap()).collect()
}

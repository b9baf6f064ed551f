//! `#[locked]` with several key templates: a call runs under all of their locks.

use std::time::Duration;

use reentry::{LockError, Locks, held, locked};
use tokio::time::{Instant, sleep};

/// Stays in the section for 900 ms. Returns the depth of each lock.
#[locked("account:{from}", "account:{to}", ttl = "10s")]
async fn transfer(from: u64, to: u64) -> Result<[u32; 2], LockError> {
    sleep(Duration::from_millis(900)).await;
    let depth = |account| held(format!("account:{account}")).map_or(0, |held| held.depth());
    Ok([depth(from), depth(to)])
}

#[tokio::test(start_paused = true)]
async fn calls_that_share_a_key_exclude_each_other_and_others_do_not() {
    let locks = Locks::in_memory();
    for (pairs, sections) in [
        ([(1, 2), (2, 1)], 2),
        ([(1, 2), (2, 3)], 2),
        ([(1, 2), (3, 4)], 1),
        ([(1, 1), (2, 2)], 1),
    ] {
        let start = Instant::now();
        let calls = pairs.map(|(from, to)| locks.scope(transfer(from, to)));
        let [one, other] = calls;
        let (one, other) = tokio::join!(one, other);
        assert_eq!(
            (one.unwrap(), other.unwrap()),
            ([1, 1], [1, 1]),
            "{pairs:?}"
        );
        let all = sections * Duration::from_millis(900);
        let took = start.elapsed();
        assert!(
            took >= all && took < all + Duration::from_millis(900),
            "{took:?}"
        );
    }
}

struct Bank {
    name: String,
    locks: Locks,
}

impl Bank {
    #[locked(
        "bank:{self.name}:{from}",
        "bank:{self.name}:{to}",
        "bank:{self.name}:{through.unwrap_or(from)}",
        locks = self.locks,
        wait = "none"
    )]
    async fn transfer(&self, from: u64, to: u64, through: Option<u64>) -> Result<usize, LockError> {
        let keys = [from, to, through.unwrap_or(from)];
        let held = keys
            .iter()
            .filter(|key| held(format!("bank:{}:{key}", self.name)).is_some());
        Ok(held.count())
    }

    #[locked("bank:{self.name}:{from}", locks = self.locks)]
    async fn close(&self, from: u64, to: u64) -> Result<usize, LockError> {
        self.transfer(from, to, None).await
    }
}

#[tokio::test]
async fn methods_options_and_re_entry_are_those_of_one_key() {
    let (name, locks) = ("corner".to_owned(), Locks::in_memory());
    let bank = Bank { name, locks };
    assert_eq!(bank.transfer(1, 2, Some(3)).await.unwrap(), 3);
    assert_eq!(bank.close(1, 2).await.unwrap(), 3);
    let _elsewhere = bank.locks.lock("bank:corner:3").await.unwrap();
    let busy = bank.transfer(1, 2, Some(3)).await.unwrap_err();
    assert!(
        matches!(&busy, LockError::Busy { key, .. } if key == "bank:corner:3"),
        "{busy}"
    );
}

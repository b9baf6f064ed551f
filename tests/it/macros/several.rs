//! `#[locked]` with several key templates: a call runs under all of their locks.

use reentry::{LockError, Locks, held, locked};

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
        busy.is_busy() && busy.key() == Some("bank:corner:3"),
        "{busy}"
    );
}

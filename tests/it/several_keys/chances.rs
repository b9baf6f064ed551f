//! Many tasks of three processes lock random pairs and triples of accounts. Every reader of all accounts, and the end
//! of the test, finds the correct sum.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use crate::support::Section;
use crate::support::dice::Dice;
use futures_util::future::join_all;
use reentry::Locks;
use reentry::testing::Server;
use tokio::task::{JoinSet, yield_now};

const ACCOUNTS: usize = 12;
const TASKS: u64 = 15;
const SECTIONS: u64 = 6_000;

/// The accounts. They are read, and written after a while: without a lock changes would be lost.
struct Bank {
    balances: [AtomicI64; ACCOUNTS],
    sections: [Section; ACCOUNTS],
}

fn keys(accounts: &[usize]) -> Vec<String> {
    let keys = accounts.iter().map(|account| format!("account:{account}"));
    keys.collect()
}

impl Bank {
    async fn transfer(&self, accounts: &[usize]) {
        let [from, to] = [accounts[0], accounts[1]].map(|account| &self.balances[account]);
        let (out, into) = (from.load(Relaxed), to.load(Relaxed));
        yield_now().await;
        from.store(out - 1, Relaxed);
        // No reader sees the temporarily wrong sum.
        yield_now().await;
        to.store(into + 1, Relaxed);
        let sections = accounts
            .iter()
            .map(|account| self.sections[*account].visit());
        join_all(sections).await;
    }

    async fn sum(&self) -> i64 {
        let mut sum = 0;
        for balance in &self.balances {
            sum += balance.load(Relaxed);
            yield_now().await;
        }
        sum
    }
}

#[tokio::test(start_paused = true)]
async fn random_transfers_of_three_processes_lose_nothing() {
    let server = Server::new();
    let bank = Arc::new(Bank {
        balances: [const { AtomicI64::new(0) }; ACCOUNTS],
        sections: std::array::from_fn(|_| Section::default()),
    });
    let processes: [Locks; 3] = std::array::from_fn(|_| server.locks());
    let mut tasks = JoinSet::new();
    for (task, locks) in (0..TASKS).zip(processes.iter().cycle()) {
        let (bank, locks) = (Arc::clone(&bank), locks.clone());
        tasks.spawn(async move {
            let mut dice = Dice(task);
            for _ in 0..SECTIONS / TASKS {
                let mut all: Vec<_> = (0..ACCOUNTS).collect();
                if dice.roll(8) == 0 {
                    let sum = locks.lock_all(keys(&all)).read().run(bank.sum());
                    assert_eq!(sum.await.unwrap(), 0);
                }
                let count = 2 + dice.roll(2);
                let pick = |_| all.swap_remove(dice.roll(all.len() as u64) as usize);
                let accounts: Vec<_> = (0..count).map(pick).collect();
                let transfer = locks.lock_all(keys(&accounts));
                transfer.run(bank.transfer(&accounts)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(bank.sum().await, 0);
    let visits = bank.sections.iter().map(Section::visits);
    let visits = u64::from(visits.sum::<u32>());
    assert!((2 * SECTIONS..=3 * SECTIONS).contains(&visits), "{visits}");
    for key in keys(&(0..ACCOUNTS).collect::<Vec<_>>()) {
        assert!(
            processes[0].admin().inspect(&key).await.unwrap().is_none(),
            "{key}"
        );
    }
}

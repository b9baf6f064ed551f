//! Random pairs and triples of accounts, by many tasks: the sums must be right in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::{DEADLINE, RedisServer, Section, unhurried, within};
use reentry::Locks;
use tokio::task::{JoinSet, yield_now};

const ACCOUNTS: usize = 12;
const TASKS: u64 = 16;
const SECTIONS: u64 = 10_000;

/// Accounts that are read, and written after a while: without a lock changes would be lost.
struct Bank {
    balances: [AtomicI64; ACCOUNTS],
    sections: [Section; ACCOUNTS],
}

impl Bank {
    async fn transfer(&self, accounts: &[usize]) {
        let [from, to, ..] = *accounts else {
            return;
        };
        let balance = |account: usize| self.balances[account].load(Relaxed);
        let (out, into) = (balance(from), balance(to));
        yield_now().await;
        self.balances[from].store(out - 1, Relaxed);
        self.balances[to].store(into + 1, Relaxed);
        let visits = accounts
            .iter()
            .map(|account| self.sections[*account].visit());
        futures_util::future::join_all(visits).await;
    }
}

async fn transfers(processes: Vec<Locks>) {
    let bank = Arc::new(Bank {
        balances: [const { AtomicI64::new(0) }; ACCOUNTS],
        sections: std::array::from_fn(|_| Section::default()),
    });
    let mut tasks = JoinSet::new();
    for (task, locks) in (0..TASKS).zip(processes.iter().cycle()) {
        let (bank, locks) = (Arc::clone(&bank), locks.clone());
        tasks.spawn(async move {
            let mut dice = Dice(task);
            for _ in 0..SECTIONS / TASKS {
                let mut all: Vec<_> = (0..ACCOUNTS).collect();
                let count = 2 + dice.roll(2);
                let pick = |_| all.swap_remove(dice.roll(all.len() as u64) as usize);
                let accounts: Vec<_> = (0..count).map(pick).collect();
                let keys = accounts.iter().map(|account| format!("account:{account}"));
                let transfer = locks.lock_all(keys).run(bank.transfer(&accounts));
                transfer.await.unwrap();
            }
        });
    }
    within(6 * DEADLINE, "all transfers are made", tasks.join_all()).await;
    let balances = bank.balances.iter().map(|balance| balance.load(Relaxed));
    assert_eq!(balances.sum::<i64>(), 0);
    let visits = bank
        .sections
        .iter()
        .map(|section| u64::from(section.visits()));
    assert!((2 * SECTIONS..=3 * SECTIONS).contains(&visits.sum()));
    for account in 0..ACCOUNTS {
        let info = processes[0]
            .inspect(format!("account:{account}"))
            .await
            .unwrap();
        assert!(info.is_none(), "{info:?}");
    }
}

#[tokio::test]
async fn random_transfers_in_memory_lose_nothing() {
    transfers(vec![Locks::in_memory()]).await;
}

#[tokio::test]
async fn random_transfers_of_three_processes_lose_nothing() {
    let server = RedisServer::start().await;
    let mut processes = Vec::new();
    for _ in 0..3 {
        // Where a lock moves, its new holder has two heartbeats to confirm it: a busy machine pauses for longer than 2 s.
        let builder = unhurried(&server).wait(Duration::from_secs(100));
        processes.push(builder.build().await.unwrap());
    }
    transfers(processes).await;
}

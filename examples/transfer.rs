//! Two locks at once: many tasks transfer money between accounts in any order, and the sum stays the same.
//!
//! `cargo run --example transfer`, or with `REDIS_URL=redis://127.0.0.1:6379`. In the second case, three processes make
//! the transfers, and coordinate only through the locks.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, thread};

use reentry::{Locks, locked};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

const ACCOUNTS: usize = 6;
const OPENING: i64 = 1_000;
const PROCESSES: usize = 3;
const TASKS: u64 = 4;
const TRANSFERS: u64 = 100;

type Failure = Box<dyn Error + Send + Sync>;

/// Acquires both locks, or none. Callers of `transfer(1, 2)` and of `transfer(2, 1)` never wait for each other in a
/// ring.
#[locked("account:{from}", "account:{to}", locks = bank.locks)]
async fn transfer(bank: &Bank, from: usize, to: usize, amount: i64) -> Result<(), Failure> {
    let (out, into) = (bank.read(from).await?, bank.read(to).await?);
    if out < amount {
        return Ok(());
    }
    // Without the locks, another transfer would have read the same balances by now.
    let writes = [(from, out - amount), (to, into + amount)];
    bank.write(writes).await
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "memory:".to_owned());
    if let Ok(address) = env::var("TRANSFER_LEDGER") {
        // One of the processes that this one has started.
        return work(&url, &address).await;
    }
    let ledger = Arc::<Ledger>::default();
    let address = serve(&ledger)?;
    let start = Instant::now();
    let processes = if url == "memory:" { 1 } else { PROCESSES };
    if processes == 1 {
        work(&url, &address).await?;
    } else {
        let run = || {
            let mut process = Command::new(env::current_exe()?);
            process.env("TRANSFER_LEDGER", &address).spawn()
        };
        let running = (0..processes)
            .map(|_| run())
            .collect::<Result<Vec<_>, _>>()?;
        for mut process in running {
            if !process.wait()?.success() {
                return Err("a process has failed".into());
            }
        }
    }
    let took = start.elapsed();
    let (balances, refused) = ledger.close();
    for (account, balance) in balances.iter().enumerate() {
        println!("account {account}: {balance:5}");
    }
    let sum: i64 = balances.iter().sum();
    let transfers = processes as u64 * TASKS * TRANSFERS;
    println!(
        "sum        {sum:5} after {transfers} transfers by {processes} process(es) in {took:.1?}"
    );
    println!("{refused} writes were rejected because of their tokens");
    let is_right = sum == OPENING * ACCOUNTS as i64;
    is_right
        .then_some(())
        .ok_or_else(|| "the sum is wrong".into())
}

/// The work of one process.
async fn work(url: &str, address: &str) -> Result<(), Failure> {
    let locks = Locks::connect(url).await?;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let bank = Bank::open(locks.clone(), address)?;
        tasks.spawn(async move {
            let mut dice = u64::from(std::process::id()) * TASKS + task;
            let mut roll = |sides: usize| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (dice >> 33) as usize % sides
            };
            for _ in 0..TRANSFERS {
                let from = roll(ACCOUNTS);
                let to = (from + 1 + roll(ACCOUNTS - 1)) % ACCOUNTS;
                transfer(&bank, from, to, 1 + roll(200) as i64).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// The locks, and a connection to the accounts that they protect.
struct Bank {
    locks: Locks,
    ledger: Arc<Mutex<BufReader<TcpStream>>>,
}

impl Bank {
    fn open(locks: Locks, address: &str) -> io::Result<Self> {
        let ledger = BufReader::new(TcpStream::connect(address)?);
        let ledger = Arc::new(Mutex::new(ledger));
        Ok(Self { locks, ledger })
    }

    async fn read(&self, account: usize) -> Result<i64, Failure> {
        Ok(self.ask(format!("read {account}")).await?.parse()?)
    }

    /// Writes both balances, each with the token of its lock.
    async fn write(&self, writes: [(usize, i64); 2]) -> Result<(), Failure> {
        let mut request = "write".to_owned();
        for (account, balance) in writes {
            let held = reentry::held(format!("account:{account}"));
            let token = held.ok_or("no lock")?.fencing_token();
            request += &format!(" {account} {balance} {token}");
        }
        self.ask(request).await.map(drop)
    }

    async fn ask(&self, request: String) -> Result<String, Failure> {
        let ledger = Arc::clone(&self.ledger);
        let asked = spawn_blocking(move || {
            let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger
                .get_mut()
                .write_all(format!("{request}\n").as_bytes())?;
            let mut answer = String::new();
            ledger.read_line(&mut answer)?;
            io::Result::Ok(answer.trim().to_owned())
        });
        Ok(asked.await??)
    }
}

/// The resource that the locks protect. A database does the same in a transaction, with `UPDATE account SET balance =
/// $1, token = $2 WHERE id = $3 AND token <= $2`.
#[derive(Default)]
struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// For each account, the sum of all payments, and the greatest token that has written so far.
    accounts: [(i64, u64); ACCOUNTS],
    refused: u64,
}

impl Ledger {
    fn answer(&self, request: &str) -> Option<String> {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words = request.split_whitespace();
        if words.next()? == "read" {
            let account: usize = words.next()?.parse().ok()?;
            return Some((OPENING + book.accounts.get(account)?.0).to_string());
        }
        let mut written = book.accounts;
        while let Some(account) = words.next() {
            let account: usize = account.parse().ok()?;
            let balance: i64 = words.next()?.parse().ok()?;
            let token: u64 = words.next()?.parse().ok()?;
            let newest = written.get_mut(account)?;
            if token < newest.1 {
                book.refused += 1;
                return Some("refused".to_owned());
            }
            *newest = (balance - OPENING, token);
        }
        book.accounts = written;
        Some("written".to_owned())
    }

    /// The final balances, and the number of rejected writes.
    fn close(&self) -> ([i64; ACCOUNTS], u64) {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (book.accounts.map(|(paid, _)| OPENING + paid), book.refused)
    }
}

/// Serves the ledger to all processes. Returns its address.
fn serve(ledger: &Arc<Ledger>) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let ledger = Arc::clone(ledger);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let ledger = Arc::clone(&ledger);
            thread::spawn(move || {
                let mut answers = client.try_clone()?;
                for request in BufReader::new(client).lines() {
                    let answer = ledger.answer(&request?).unwrap_or_default();
                    answers.write_all(format!("{answer}\n").as_bytes())?;
                }
                io::Result::Ok(())
            });
        }
    });
    Ok(address)
}

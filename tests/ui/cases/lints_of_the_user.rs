#![deny(unused)]

use reentry::{LockError, locked};

#[locked("order:{id}")]
async fn ship(id: u64, unused: u64, mut constant: u64) -> Result<u64, LockError> {
    let forgotten = constant;
    Ok(id)
}

#[must_use]
#[locked("order:{id}")]
async fn important(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

async fn caller() {
    ship(1, 2, 3);
    let _ = important(1).await;
}

fn main() {
    let _ = caller();
}

use reentry::{LockError, locked};

#[locked("account:{from}", "account:{too}")]
async fn misspelt(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

#[locked("account:{from}", "audit")]
async fn no_argument(from: u64) -> Result<u64, LockError> {
    Ok(from)
}

#[locked("account:{form", "account:{fro}", ttl = "10")]
async fn each_mistake_is_reported(from: u64) -> Result<u64, LockError> {
    Ok(from)
}

fn main() {}

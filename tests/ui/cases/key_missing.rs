use reentry::{LockError, locked};

#[locked]
async fn bare(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked()]
async fn empty(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(ttl = "10s")]
async fn only_options(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use reentry::{LockError, locked};

const SHARD: u32 = 3;

#[locked("orders")]
async fn no_placeholder(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("orders:{SHARD}")]
async fn no_argument(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("orders:{{id}}")]
async fn escaped(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

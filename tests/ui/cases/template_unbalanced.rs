use reentry::{LockError, locked};

#[locked("order:{id")]
async fn open(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}}")]
async fn close(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id.max(1}")]
async fn inside(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{}")]
async fn empty(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use reentry::{LockError, locked};

#[locked("order:{id.}")]
async fn unfinished(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id id}")]
async fn two(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id = 5}")]
async fn assignment(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id:width$}")]
async fn width(id: u64, width: usize) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id:q}")]
async fn format(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{type}")]
async fn keyword(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use reentry::{LockError, locked};

#[locked(id)]
async fn name(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(format!("order:{id}"))]
async fn call(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(42)]
async fn number(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use reentry::{LockError, locked};

#[locked(key = 5)]
async fn key(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", on_lost = OnLost::KeepRunning)]
async fn not_imported(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

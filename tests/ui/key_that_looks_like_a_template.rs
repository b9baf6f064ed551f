use reentry::{LockError, locked};

#[locked(key = "order:{id}")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// A hash tag of Redis Cluster is no placeholder.
#[locked(key = "jobs:{nightly}")]
async fn fine(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

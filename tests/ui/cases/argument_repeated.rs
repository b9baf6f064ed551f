use reentry::{LockError, locked};

#[locked("order:{id}", ttl = "10s", wait = "1s", ttl = "20s")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

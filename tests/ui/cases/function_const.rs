use reentry::{LockError, locked};

#[locked("order:{id}")]
const async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

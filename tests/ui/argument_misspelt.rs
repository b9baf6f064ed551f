use reentry::{LockError, locked};

#[locked("order:{id}", tll = "10s")]
async fn near(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", colour = "red")]
async fn far(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

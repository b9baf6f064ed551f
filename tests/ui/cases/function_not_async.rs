use reentry::{LockError, locked};

#[locked("order:{id}")]
fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}")]
const fn constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[tokio::main]
#[locked(key = "nightly")]
async fn main() -> Result<(), LockError> {
    ship(1)?;
    constant(1)?;
    Ok(())
}

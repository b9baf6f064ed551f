use reentry::{LockError, locked};

#[locked(key = "nightly")]
async fn main() -> Result<(), LockError> {
    Ok(())
}

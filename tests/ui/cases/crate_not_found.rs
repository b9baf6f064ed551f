use reentry::{LockError, locked};

#[locked("order:{id}", crate = company::locks)]
async fn of_no_crate(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

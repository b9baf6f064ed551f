use reentry::{LockError, locked};

#[locked("report:{year}", read = true)]
async fn with_a_value(year: u32) -> Result<u32, LockError> {
    Ok(year)
}

#[locked("report:{year}", read, read)]
async fn twice(year: u32) -> Result<u32, LockError> {
    Ok(year)
}

fn main() {}

use reentry::{LockError, locked};

#[locked("order:{id}", ttl)]
async fn nothing(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", ttl("10s"))]
async fn parenthesized(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", ttl = )]
async fn blank(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}" ttl = "10s")]
async fn no_comma(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

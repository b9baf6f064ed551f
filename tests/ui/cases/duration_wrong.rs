use reentry::{LockError, locked};

#[locked("order:{id}", ttl = "10")]
async fn no_unit(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", ttl = "10 parsecs")]
async fn unknown_unit(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", ttl = "30s1m")]
async fn smaller_unit_first(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", wait = "soon")]
async fn no_number(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", ttl = 10)]
async fn number(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", ttl = "0s")]
async fn zero(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", max_hold = "forever")]
async fn no_limit(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", max_hold = "99999999999999999999h")]
async fn too_long(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

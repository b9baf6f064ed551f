use reentry::{LockError, locked};

#[locked("order:{id}", key = "order")]
async fn template_and_key(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order", "order:{id}")]
async fn key_and_template(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order", key = "customer")]
async fn two_keys(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", "order:{id}")]
async fn the_same_template(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use reentry::{LockError, locked};

#[locked("order:{id}", key = "order")]
async fn template_and_key(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order", "order:{id}")]
async fn key_and_template(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", "customer:{id}")]
async fn two_templates(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

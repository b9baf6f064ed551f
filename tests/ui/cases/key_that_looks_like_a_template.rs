use reentry::{LockError, locked};

#[locked(key = "order:{id}")]
async fn argument(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order:{order_id}")]
async fn other_name(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = &"order:{id.max(1)}".to_owned())]
async fn expression(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order:{ORDER:08}")]
async fn constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order:{type}")]
async fn keyword(r#type: &str) -> Result<usize, LockError> {
    Ok(r#type.len())
}

// Hash tags of Redis Cluster, and texts that are taken apart elsewhere.
const NIGHTLY: &str = "jobs:{nightly}";

#[locked(key = NIGHTLY)]
async fn hash_tag(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "jobs:{7}")]
async fn number(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "order:{id}".replace("{id}", &id.to_string()))]
async fn replaced(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

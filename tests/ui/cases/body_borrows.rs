use reentry::{LockError, locked};

#[locked("order:{id}")]
async fn moved(id: String) -> Result<String, LockError> {
    drop(id);
    Ok(id)
}

#[locked("order:{ids:?}")]
async fn not_mut(ids: Vec<u64>) -> Result<Vec<u64>, LockError> {
    ids.push(1);
    Ok(ids)
}

#[locked("order:{id}")]
async fn dangling(id: u64) -> Result<&'static u64, LockError> {
    Ok(&id)
}

fn main() {}

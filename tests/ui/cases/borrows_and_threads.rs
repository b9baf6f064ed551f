use std::rc::Rc;

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

#[locked("order:{id}")]
async fn not_send(id: u64) -> Result<u64, LockError> {
    let shared = Rc::new(id);
    std::future::ready(()).await;
    Ok(*shared)
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(not_send(1));
}

use std::rc::Rc;

use reentry::{LockError, locked};

#[locked("order:{id}")]
async fn ship(id: u64) -> Result<u64, LockError> {
    let shared = Rc::new(id);
    tokio::task::yield_now().await;
    Ok(*shared)
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(ship(1));
}

use std::pin::Pin;

use reentry::{LockError, locked};

type Shipping<'a> = Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send + 'a>>;

#[locked("order:{id}")]
fn ship(id: u64) -> Shipping<'static> {
    Box::pin(async move { Ok(id) })
}

fn main() {}

use reentry::{LockError, locked};

struct Order(u64);

#[locked("order:{order}")]
async fn ship(order: Order) -> Result<u64, LockError> {
    Ok(order.0)
}

fn main() {}

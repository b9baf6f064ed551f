use reentry::{LockError, locked};

struct Order {
    id: u64,
}

#[locked("order:{order_id}")]
async fn longer(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{ordre.id}:{lines[0]}")]
async fn slip(order: &Order, liens: &[u64]) -> Result<u64, LockError> {
    Ok(order.id + liens[0])
}

#[locked("order:{id}:{tenant}")]
async fn far(id: u64, name: &str) -> Result<u64, LockError> {
    Ok(id + name.len() as u64)
}

#[locked("order:{id}")]
async fn none() -> Result<u64, LockError> {
    Ok(0)
}

#[locked("order:{self.id}")]
async fn no_method(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use std::pin::Pin;

use reentry::{LockError, locked};

#[locked("order:{id}")]
async fn value(id: u64) -> Result<String, LockError> {
    Ok(id)
}

#[locked("order:{id}")]
async fn returned(id: u64) -> Result<u64, LockError> {
    if id == 0 {
        return 0;
    }
    Ok(id)
}

#[locked("order:{id}")]
async fn no_value(id: u64) -> Result<u64, LockError> {
    Ok(id);
}

#[locked("order:{id}")]
async fn question_mark(id: String) -> Result<u64, LockError> {
    let id = id.parse()?;
    Ok(id)
}

#[locked("order:{id}")]
fn no_value_of_a_block(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    async move {
        Ok(id);
    }
}

// As `#[async_trait]` writes it.
#[locked("order:{id}")]
fn value_of_a_box(id: u64) -> Pin<Box<dyn Future<Output = Result<String, LockError>> + Send>> {
    Box::pin(async move { Ok(id) })
}

struct Order;
type Orders = Vec<Order>;

#[locked("order:{id}")]
async fn no_result(id: u64) -> Order {
    let _ = id;
    Order
}

#[locked("order:{id}")]
async fn alias_of_no_result(id: u64) -> Orders {
    let _ = id;
    Vec::new()
}

#[locked("order:{id}")]
async fn error_of_another_type(id: u64) -> Result<u64, Order> {
    Ok(id)
}

fn main() {}

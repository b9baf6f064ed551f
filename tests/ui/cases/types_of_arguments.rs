use std::sync::LazyLock;

use reentry::{LockError, Locks, locked};

struct Shop {
    url: String,
}

impl Shop {
    #[locked("order:{id}", locks = self.url)]
    async fn field(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

#[locked("order:{id}", locks = Locks::builder("memory:"))]
async fn not_built(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

static LOCKS: LazyLock<Locks> = LazyLock::new(Locks::in_memory);

#[locked("order:{id}", locks = LOCKS)]
async fn not_dereferenced(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = 5)]
async fn key(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Order(u64);

#[locked("order:{order}")]
async fn no_display(order: Order) -> Result<u64, LockError> {
    Ok(order.0)
}

fn main() {}

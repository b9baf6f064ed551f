use std::sync::LazyLock;

use reentry::{LockError, Locks, locked};

struct Shop {
    url: String,
}

#[locked("order:{id}", locks = "redis://localhost")]
async fn url(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

impl Shop {
    #[locked("order:{id}", locks = self.url)]
    async fn field(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

#[locked("order:{id}", locks = Locks::connect("redis://localhost"))]
async fn not_awaited(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", locks = Locks::builder("memory:"))]
async fn not_built(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", locks = 5)]
async fn number(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

static LOCKS: LazyLock<Locks> = LazyLock::new(Locks::in_memory);

#[locked("order:{id}", locks = LOCKS)]
async fn not_dereferenced(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use async_trait::async_trait;
use reentry::{LockError, locked};

#[async_trait]
trait Shop {
    async fn misspelt(&self, id: u64) -> Result<u64, LockError>;
    async fn no_argument(&self, id: u64) -> Result<u64, LockError>;
    async fn no_result(&self, id: u64) -> u64;
    async fn body(&self, id: u64) -> Result<String, LockError>;
}

struct Corner;

#[async_trait]
impl Shop for Corner {
    #[locked("order:{id}", tll = "10s")]
    async fn misspelt(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[locked("orders")]
    async fn no_argument(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }

    #[locked("order:{id}")]
    async fn no_result(&self, id: u64) -> u64 {
        id
    }

    #[locked("order:{id}")]
    async fn body(&self, id: u64) -> Result<String, LockError> {
        Ok(id)
    }
}

fn main() {}

use reentry::{LockError, locked};

trait Shop {
    #[locked("order:{id}")]
    async fn ship(&self, id: u64) -> Result<u64, LockError>;
}

struct Corner;

impl Shop for Corner {
    async fn ship(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}

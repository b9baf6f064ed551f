use reentry::{LockError, locked};

// All three are reported, and nothing else: neither that the recursion needs a box, nor that
// the callers find no function.
#[locked("order:{id", ttl = "ten", wiat = "1s")]
async fn walk(id: u64, below: u32) -> Result<u64, LockError> {
    if below == 0 { Ok(id) } else { walk(id, below - 1).await }
}

struct Shop;

impl Shop {
    #[locked("shop:{self.id}:{", wait = "1 s")]
    async fn open(&self) -> Result<(), LockError> {
        Ok(())
    }
}

async fn caller() -> Result<u64, LockError> {
    Shop.open().await?;
    walk(1, 2).await
}

fn main() {
    let _ = caller();
}

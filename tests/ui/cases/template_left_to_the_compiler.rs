use reentry::{LockError, locked};

// Such a name may be a constant.
#[locked("order:{id}:{SHARD}")]
async fn no_constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// What a block binds, only the compiler knows.
#[locked("order:{if id > 0 { order_id } else { 0 }}")]
async fn in_a_block(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

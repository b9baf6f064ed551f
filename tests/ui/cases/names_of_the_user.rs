//! What a name or a function means, only the compiler knows.

use reentry::{LockError, locked};

#[locked("order:{id}", crate = company::locks)]
async fn of_no_crate(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", on_lost = OnLost::KeepRunning)]
async fn not_imported(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}:{SHARD}")]
async fn no_constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{if id > 0 { order_id } else { 0 }}")]
async fn in_a_block(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id:q}")]
async fn format(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}")]
async fn unknown(id: u64) -> Result<u64, LockError> {
    Ok(ident)
}

#[locked("order:{id}")]
const async fn constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked(key = "nightly")]
async fn main() -> Result<(), LockError> {
    Ok(())
}

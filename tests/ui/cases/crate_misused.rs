use reentry::{LockError, locked};

#[locked("order:{id}", crate = "reentry")]
async fn a_text(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", crate = reentry::Locks::in_memory())]
async fn a_call(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", crate = <reentry::Locks>::held)]
async fn of_a_type(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", crate)]
async fn no_path(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", crate = reentry, crate = ::reentry)]
async fn twice(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

use reentry::{LockError, Locks, locked};

#[locked("order:{id}", tll = "10s")]
async fn near(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", colour = "red")]
async fn far(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", lease = "10s", timeout = "1s")]
async fn of_other_locks(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", lock_timeout = "1s", expires = "10s", lock = locks)]
async fn near_those(id: u64, locks: &Locks) -> Result<u64, LockError> {
    Ok(id)
}

#[locked("order:{id}", hold = "1m", lost = OnLost::Abort)]
async fn shortened(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}

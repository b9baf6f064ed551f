use reentry::{LockError, Replicas, locked};

const ALL: Replicas = Replicas::all();

#[locked("order:{id}", confirm = "500ms")]
async fn no_replicas(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[locked("order:{id}", confirm = (ALL, 500))]
async fn no_unit(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[locked("order:{id}", confirm = (ALL, "0s"))]
async fn no_time(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

fn main() {}

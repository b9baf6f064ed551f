use reentry::{LockError, locked};

#[locked("order:{id}", held = "lock")]
async fn a_text(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[locked("order:{id}", held = self.lock)]
async fn a_place(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[locked("order:{id}", held)]
async fn no_name(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[locked("account:{from}", "account:{to}", held = lock)]
async fn of_several(from: u32, to: u32) -> Result<u32, LockError> {
    Ok(from + to)
}

fn main() {}

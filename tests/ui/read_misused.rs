use reentry::{LockError, locked};

#[locked("report:{year}", read = true)]
async fn with_a_value(year: u32) -> Result<u32, LockError> {
    Ok(year)
}

#[locked("report:{year}", read, read)]
async fn twice(year: u32) -> Result<u32, LockError> {
    Ok(year)
}

#[locked("account:{from}", "account:{to}", read)]
async fn of_several(from: u32, to: u32) -> Result<u32, LockError> {
    Ok(from + to)
}


fn main() {}

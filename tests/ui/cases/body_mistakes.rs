use reentry::{LockError, locked};

#[locked("order:{id}")]
async fn value(id: u64) -> Result<String, LockError> {
    id
}

#[locked("order:{id}")]
async fn inner_value(id: u64) -> Result<String, LockError> {
    Ok(id)
}

#[locked("order:{id}")]
async fn returned(id: u64) -> Result<u64, LockError> {
    if id == 0 {
        return 0;
    }
    Ok(id)
}

#[locked("order:{id}")]
async fn no_value(id: u64) -> Result<u64, LockError> {
    Ok(id);
}

#[locked("order:{id}")]
async fn question_mark(id: String) -> Result<u64, LockError> {
    let id = id.parse()?;
    Ok(id)
}

#[locked("order:{id}")]
async fn unknown(id: u64) -> Result<u64, LockError> {
    Ok(ident)
}

#[locked("order:{id}")]
fn no_value_of_a_block(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    async move {
        Ok(id);
    }
}

fn main() {}

use reentry::locked;

struct ShipError;

#[locked("order:{id}")]
async fn ship(id: u64) -> Result<u64, ShipError> {
    Ok(id)
}

fn main() {}

use reentry::locked;

#[locked("order:{id}")]
struct Order {
    id: u64,
}

fn main() {
    let _ = Order { id: 1 }.id;
}

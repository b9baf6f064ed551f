use reentry::locked;

struct Order;
type Orders = Vec<Order>;

#[locked("order:{id}")]
async fn nothing(id: u64) {
    let _ = id;
}

#[locked("order:{id}")]
async fn unit(id: u64) -> () {
    let _ = id;
}

#[locked("order:{id}")]
async fn primitive(id: u64) -> u64 {
    id
}

#[locked("order:{id}")]
async fn tuple(id: u64) -> (u64, u64) {
    (id, id)
}

#[locked("order:{id}")]
async fn reference(id: &u64) -> &u64 {
    id
}

#[locked("order:{id}")]
async fn opaque(id: u64) -> impl Send {
    id
}

#[locked("order:{id}")]
async fn option(id: u64) -> Option<u64> {
    Some(id)
}

// What a path means, only the compiler knows.
#[locked("order:{id}")]
async fn path(id: u64) -> Order {
    let _ = id;
    Order
}

#[locked("order:{id}")]
async fn alias(id: u64) -> Orders {
    let _ = id;
    Vec::new()
}

fn main() {}

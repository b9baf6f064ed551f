//! The workload as a program of its own, to be built with `panic = "abort"`: one panic ends it, whether
//! or not anything would have caught it. Its argument is the server's URL.

mod workload;

fn main() {
    let url = std::env::args().nth(1).unwrap_or_default();
    workload::run(&workload::connect(reentry::Locks::builder().url(url)));
}

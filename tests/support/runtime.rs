//! A runtime for a test that has more than one.

use tokio::runtime::{Builder, Runtime};

/// A runtime that runs only while a thread blocks on it.
pub fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

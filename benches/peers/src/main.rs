//! See the library, which contains all of the code.

use anyhow::Result;

// One thread for each process, as for the server: with more threads, the scheduler would be measured.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    reentry_peers::run(None).await
}

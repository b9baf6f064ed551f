//! See the library, which is all of it.

use anyhow::Result;

// One thread for each process, as for the server: more of them would measure the scheduler.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    reentry_peers::run(None).await
}

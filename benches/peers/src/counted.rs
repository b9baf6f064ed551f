//! The same program with a counting allocator, for `figures`. It measures no times.

use std::alloc::System;

use anyhow::Result;
use reentry_peers::Allocated;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocated() -> Allocated {
    let stats = ALLOCATOR.stats();
    // A reallocation counts as an allocation: the memory may have to move.
    Allocated {
        times: stats.allocations + stats.reallocations,
        bytes: stats.bytes_allocated - stats.bytes_deallocated,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    reentry_peers::run(Some(allocated)).await
}

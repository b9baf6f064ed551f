//! The contract suite: what every [`Store`](super::Store) promises, claimed once and checked on
//! each of them.
//!
//! Leases are minutes long, and minutes pass on command (see `world`): what a busy machine adds in
//! real time is far below what is checked.

/// Runs each `async fn claim(world: World)` as a test of its own over the in-memory store and over
/// a server of its own.
macro_rules! on_every_store {
    ($($claim:ident),+ $(,)?) => {
        mod in_memory {
            use crate::store::contract::world::World;

            $(#[tokio::test(start_paused = true)]
            async fn $claim() {
                super::$claim(World::in_memory()).await;
            })+
        }

        mod on_redis {
            use crate::{store::contract::world::World, support::{DEADLINE, within}};

            $(#[tokio::test]
            async fn $claim() {
                let claim = async { super::$claim(World::on_redis().await).await };
                within(DEADLINE, stringify!($claim), claim).await;
            })+
        }
    };
}

mod classic;
mod contention;
mod depth;
mod end;
mod expiry;
mod faults;
mod forced;
pub(super) mod inbox;
mod lease;
mod leave;
mod messages;
mod moves;
mod odd_data;
mod queue;
mod readers;
mod retain;
pub(super) mod server;
mod several;
mod take;
mod tokens;
mod waits;
pub(super) mod world;

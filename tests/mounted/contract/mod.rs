//! The contract suite: the promises of every [`Store`](super::Store), each of them written once and checked on each
//! store.
//!
//! Mounted by `src/store/mod.rs` as `store::contract`.
//!
//! Leases last minutes, and minutes pass on command (see `world`). The real time that a busy machine adds is much
//! shorter than the checked times.

/// Runs each `async fn claim(world: World)` as a separate test over the in-memory store and over a server of its own.
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
            use crate::store::contract::world::World;
            use crate::support::{DEADLINE, within};

            $(#[tokio::test]
            async fn $claim() {
                let claim = async { super::$claim(World::on_redis().await).await };
                within(DEADLINE, stringify!($claim), claim).await;
            })+
        }

        /// Runs all claims on one server, which is emptied for each of them. It is for a server that takes long to
        /// start.
        pub(in crate::store::contract) async fn on_one_server(
            server: &crate::store::contract::server::Server,
        ) {
            use crate::store::contract::world::World;
            use crate::support::{DEADLINE, within};

            $(server.flush().await;
            let claim = async { $claim(World::on(server.clone()).await).await };
            within(DEADLINE, stringify!($claim), claim).await;)+
        }
    };
}

mod batches;
mod bounded;
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
mod requests;
pub(super) mod server;
mod several;
mod take;
mod tokens;
mod waits;
pub(super) mod world;

/// Runs the claims one after the other on one server.
mod on_one_server {
    use super::server::Server;
    use super::{
        contention, depth, end, forced, lease, leave, messages, moves, queue, readers, several,
        take, tokens, waits,
    };

    /// A cluster rejects a script that names keys of several slots, and redirects.
    #[tokio::test]
    async fn every_claim_holds_on_a_cluster() {
        every_claim_holds(&Server::start_cluster().await).await;
    }

    /// A short request does the same in a batch as alone, or nothing.
    #[tokio::test]
    async fn every_claim_holds_with_batches() {
        every_claim_holds(&Server::start().await.with_batches()).await;
    }

    async fn every_claim_holds(server: &Server) {
        take::on_one_server(server).await;
        lease::on_one_server(server).await;
        depth::on_one_server(server).await;
        end::on_one_server(server).await;
        queue::on_one_server(server).await;
        leave::on_one_server(server).await;
        moves::on_one_server(server).await;
        messages::on_one_server(server).await;
        contention::on_one_server(server).await;
        forced::on_one_server(server).await;
        tokens::on_one_server(server).await;
        readers::on_one_server(server).await;
        readers::changes::on_one_server(server).await;
        readers::turns::on_one_server(server).await;
        waits::on_one_server(server).await;
        several::on_one_server(server).await;
    }
}

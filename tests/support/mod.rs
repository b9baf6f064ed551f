//! The support of the integration tests: real servers, a misbehaving network, other processes.
//!
//! Every test binary that needs servers mounts this module and uses a part of it. All parts follow these rules. A test
//! owns its server, its proxy and its children, and they end with it, even if the test process is killed. Nothing waits
//! for a fixed time, and no wait is without a deadline.
//!
//! | file | gives |
//! |---|---|
//! | `server` | [`RedisServer`]: a `redis-server` of the test's own |
//! | `clients` | the connections of the crate to that server, and their ends |
//! | `leftovers` | the keys that locks have left in that server |
//! | `replication` | whether a replica is linked, and the interruption of replication |
//! | `sentinel` | [`SentinelSet`]: a primary, its replicas, and the sentinels that fail over |
//! | `cluster` | [`Cluster`]: primaries that share the slots, with replicas, and their failovers |
//! | `resharding` | a slot of a cluster that moves to another primary, step by step |
//! | `stats` | the commands that the server has executed |
//! | `errors` | the errors with which the server has responded |
//! | `told` | what an error of the crate says |
//! | `load` | [`Load`]: the number of the server's connections and commands |
//! | `tls` | [`TlsRedisServer`]: a server behind TLS, with certificates of its own |
//! | `stepped` | [`SteppedServer`]: a server whose clock can be stepped |
//! | `proxy` | [`Proxy`]: cuts, delays, holds back and loses bytes on the way |
//! | `child` | [`Child`]: a part of the test, or a program, in a separate process, which can be killed, stopped or told to end |
//! | `classic` | the well-known lock and unlock scripts, as other programs use them |
//! | `redisson` | [`redisson::Redisson`]: a client that waits as Redisson does |
//! | `database` | [`DatabaseServer`]: Postgres or MariaDB |
//! | `dice` | repeatable random numbers |
//! | `wait` | [`eventually`] and [`within`] |
//! | `subscriber` | the subscriber of one test for spans and events |
//! | `stores` | [`on_both_stores`]: one case over both stores, [`in_memory`]: over one; [`connect`], [`Section`], [`depths`], [`waiters`] |
//! | `rig` | [`Rig`]: a server, a proxy in front of it, and locks that connect through the proxy |
//! | `rotation` | a password that is rotated again and again |
//! | `cycles` | [`cycle`]: callers that wait for each other |
//! | `runtime` | a runtime for a test that has more than one |
//! | `sweep` | futures that are dropped after their n-th poll, and what they leave |
//! | `turns` | several processes at one lock, and the [`Turns`] of their waiters |
//! | `process`, `ports`, `admin`, `config`, `program` | parts that the other files use |

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros,
    reason = "each test binary compiles this module for itself and uses a part of it"
)]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

pub mod admin;
pub mod child;
pub mod classic;
pub mod clients;
pub mod cluster;
pub mod config;
pub mod cycles;
pub mod database;
pub mod dice;
pub mod errors;
pub mod leftovers;
pub mod load;
pub mod ports;
pub mod process;
pub mod program;
pub mod proxy;
pub mod redisson;
pub mod replication;
pub mod resharding;
pub mod rig;
#[cfg(feature = "credentials")]
pub mod rotation;
pub mod runtime;
pub mod sentinel;
pub mod server;
pub mod stats;
pub mod stepped;
pub mod stores;
pub mod subscriber;
pub mod sweep;
pub mod tls;
pub mod told;
pub mod turns;
pub mod wait;

pub use child::Child;
pub use cluster::Cluster;
pub use cycles::cycle;
pub use database::DatabaseServer;
pub use proxy::{Action, Cut, Direction, Proxy};
pub use rig::Rig;
pub use sentinel::SentinelSet;
pub use server::RedisServer;
pub use stepped::SteppedServer;
pub use stores::{
    Section, connect, depths, patient, patient_at, until_depths, until_free, until_waiting, waiters,
};
pub(crate) use stores::{in_memory, on_both_stores};
pub use tls::TlsRedisServer;
pub use turns::{
    Stay, Turns, held_and_wanted, only_by_events, processes, queued, unhurried, until_queued,
};
pub use wait::{DEADLINE, eventually, within};

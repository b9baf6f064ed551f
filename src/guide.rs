//! How to use the crate, and how it works. Each page covers one subject.
//!
//! New to the crate? Read [`call_graph`] first. Before you use it in production, read [`options`], [`loss`] and
//! [`services`].
//!
//! # Examples
//!
//! The package contains complete programs. Each runs on the in-memory store, or on a Redis server if `REDIS_URL` is
//! set. Only `migration` needs a server:
//!
//! | `cargo run --example …` | shows |
//! |---|---|
//! | `quickstart` | a handler and its helper, which both take one lock |
//! | `recursive` | two callers that compete for a lock and re-enter it, and what the store contains meanwhile |
//! | `guard` | a lock as a value: its scope, its loss, its release |
//! | `transfer` | two locks acquired together, in many processes |
//! | `report_cache` | readers and a writer |
//! | `cron` | a nightly job that one of several machines runs, even if another one dies, with its tests |
//! | `standby` | one active replica of several |
//! | `migration` | programs that hold an old lock and a new one, beside programs with the old lock alone |
//!
//! Complete services, and one with a database, need more crates. They are only in the repository, in
//! `examples/services`:
//!
//! | `cargo run --example …` | shows |
//! |---|---|
//! | `axum_orders` | a web service that shuts down in order; its tests have busy and lost locks, outages and dead replicas |
//! | `transaction_layer` | a web service with a layer that commits, and the lock around it, with its tests |
//! | `worker` | a pool of workers, with one job at a time for each account, and its tests |
//! | `metrics` | the metrics that Prometheus scrapes |
//! | `fenced_writes` | a database that rejects a stale token: SQLite, or Postgres with `DATABASE_URL` |
//!
//! # Other documents
//!
//! The package contains more documents than [`design`] and [`reliability`], which are not shown here: `docs/cli.md` (the
//! command line), `docs/wire.md` (keys, scripts and messages, for clients in other languages), `docs/found.md` (the faults
//! that tests have found), a dashboard and rules for alerts in `docs/observability`, `SECURITY.md` and
//! `CHANGELOG.md`.
//!
//! Only the repository has `docs/performance.md` (how fast the crate is, and how that was measured), `docs/decisions` (why
//! the crate is built in this way), `CONTRIBUTING.md` and the fuzz targets.

/// Which code is inside a lock that its caller holds, and which is not.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/call_graph.md")]
pub mod call_graph {}

/// All options, and how to choose `ttl`, `wait`, `max_hold` and `min_hold`.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/options.md")]
pub mod options {}

/// What happens when a lock is lost, and how a database rejects the writes of a stale holder.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/loss.md")]
pub mod loss {}

// The code of this page is part of the programs in examples, which have tests of their own.
/// Web services, transactions, workers, nightly jobs, leaders, shutting down, Kubernetes.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[cfg_attr(not(doctest), doc = include_str!("../docs/guide/services.md"))]
pub mod services {}

/// How to test code that takes locks.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}

/// How to migrate from `rslock`, Redlock crates, Redisson, the lock of redis-py, or a row lock of a database.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/guide/migrating.md")]
pub mod migrating {}

/// How the crate works: its guarantees, its data in Redis, and its work inside the process.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/design.md")]
pub mod design {}

/// What can go wrong, how a user notices it, which events report it, and how it is tested.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/reliability.md")]
pub mod reliability {}

/// Servers and URLs, rights, logins, keys, what happens when a server fails, dashboards and alerts.
#[doc = ""]
#[doc = include_str!("links.md")]
#[doc = ""]
#[doc = include_str!("../docs/operations.md")]
pub mod operations {}

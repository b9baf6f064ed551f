//! The servers of an address, each with a connection of its own. The locks do not use these connections.
//!
//! A single server names its replicas, or its primary. If the address has several servers, they name the others. Each
//! server that is named is asked. The view with the latest epoch is used, because some servers may not know of a
//! failover yet.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::{once, repeat};
use std::{fmt, mem};

use anyhow::{Context, anyhow};
use redis::{FromRedisValue, Value};
use reentry::__admin::Seeds;
use tokio::task::JoinSet;

use self::server::Timeouts;
pub(crate) use self::server::{Answer, Fields, Role, Server, accepted, fields, rejects_login};
use crate::args::Global;
use crate::connect;

mod server;

/// The error if no server of the address responds.
#[derive(Debug)]
pub(crate) struct Unreachable;

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redis is unavailable")
    }
}

/// The servers of `--url`.
///
/// # Errors
///
/// [`Unreachable`] if no server in the address responds.
pub(crate) async fn all(global: &Global) -> anyhow::Result<Vec<Server>> {
    all_of(Seeds::from_builder(&connect::builder(global)?)?, global).await
}

/// The servers of `--url` to which requests for locks go.
///
/// # Errors
///
/// As for [`all`].
pub(crate) async fn primaries(global: &Global) -> anyhow::Result<Vec<Server>> {
    let seeds = Seeds::from_builder(&connect::builder(global)?)?;
    let is_one = matches!(seeds, Seeds::Server(_));
    let mut servers = all_of(seeds, global).await?;
    servers.retain(|server| *server.role() == Role::Primary);
    if is_one {
        // A replica names its primary, to which no request goes.
        servers.truncate(1);
    }
    Ok(servers)
}

async fn all_of(seeds: Seeds, global: &Global) -> anyhow::Result<Vec<Server>> {
    let timeouts = Timeouts {
        connect: global.connect_timeout,
        response: global.response_timeout,
    };
    let new = |role: &Role, server| Server::new(role.clone(), server, timeouts);
    let servers = match seeds {
        Seeds::Server(server) => new(&Role::Primary, server).around().await,
        Seeds::Sentinels {
            primary,
            sentinels,
            server,
        } => {
            let role = Role::Sentinel(primary.clone());
            let server = new(&Role::Primary, server);
            let seeds = sentinels.into_iter().map(|it| new(&role, it));
            let asked = latest(seeds.collect(), |sentinel| {
                sentinel.by_sentinel(primary.clone(), server.clone())
            });
            let asked = asked.await;
            asked.map(|(sentinels, latest)| sentinels.into_iter().chain(latest.servers).collect())
        }
        Seeds::Cluster(seeds) => {
            let seeds = seeds.into_iter().map(|it| new(&Role::Primary, it));
            let asked = latest(seeds.collect(), Server::by_cluster).await;
            asked.map(|(_, latest)| latest.servers)
        }
    };
    servers.context(Unreachable)
}

/// The view that one of several servers has of them.
struct View {
    /// The configuration epoch, which grows with each failover.
    epoch: u64,
    /// The servers that can give such a view.
    others: Vec<Server>,
    servers: Vec<Server>,
}

/// Asks these servers, and all others that they name. Returns all servers that were asked, and the view of the latest
/// epoch.
async fn latest<F>(
    seeds: Vec<Server>,
    view: impl Fn(Server) -> F,
) -> anyhow::Result<(Vec<Server>, View)>
where
    F: Future<Output = anyhow::Result<View>> + Send + 'static,
{
    let (mut asked, mut views) = (BTreeMap::new(), JoinSet::new());
    let (mut named, mut latest) = (seeds, Err(anyhow!("no server is named")));
    loop {
        for server in named.drain(..) {
            if let Entry::Vacant(entry) = asked.entry(server.place()) {
                views.spawn(view(entry.insert(server).clone()));
            }
        }
        match views.join_next().await {
            Some(Ok(Ok(mut view))) => {
                named = mem::take(&mut view.others);
                if !matches!(&latest, Ok(View { epoch, .. }) if *epoch >= view.epoch) {
                    latest = Ok(view);
                }
            }
            Some(Ok(Err(error))) => latest = latest.or(Err(error)),
            Some(Err(error)) => return Err(error.into()),
            None => return latest.map(|view| (asked.into_values().collect(), view)),
        }
    }
}

impl Server {
    /// The view of a single server: the server, and the replicas or the primary that it names. The server counts as
    /// a primary whatever it says: all requests for locks go to it.
    async fn around(self) -> anyhow::Result<Vec<Self>> {
        // A user without this permission sees only this server.
        let info = self.ask::<String>(&["INFO", "replication"]).await?;
        let info = fields(info.unwrap_or_default().lines(), ':');
        let replicas = info.iter().filter_map(|(name, value)| {
            name.strip_prefix("slave")?.parse::<u32>().ok()?;
            self.named(Role::Replica, &fields(value.split(','), '='))
        });
        let primary = info.get("master_host").zip(info.get("master_port"));
        let primary =
            primary.and_then(|(host, port)| Some(self.at(Role::Primary, host, port.parse().ok()?)));
        let others: Vec<_> = replicas.chain(primary).collect();
        Ok(once(self).chain(others).collect())
    }

    /// The view of a sentinel: the primary of this name and all its replicas, also the replicas that are down. The
    /// connections are made in the same way as to `server`.
    async fn by_sentinel(self, name: String, server: Self) -> anyhow::Result<View> {
        let primary: Fields = accepted(self.ask(&["SENTINEL", "MASTER", &name]).await?)?;
        let others: Vec<Fields> = accepted(self.ask(&["SENTINEL", "SENTINELS", &name]).await?)?;
        let replicas: Answer<Vec<Fields>> = self.ask(&["SENTINEL", "REPLICAS", &name]).await?;
        let replicas = replicas.unwrap_or_default();
        let epoch = primary.get("config-epoch").and_then(|it| it.parse().ok());
        let primary = server.named(Role::Primary, &primary);
        let primary = primary.context("the primary has no address")?;
        let others = others.iter();
        let replicas = replicas.iter();
        let replicas: Vec<_> = replicas
            .filter_map(|it| server.named(Role::Replica, it))
            .filter(|it| it.address() != primary.address())
            .collect();
        Ok(View {
            epoch: epoch.unwrap_or_default(),
            others: others
                .filter_map(|it| self.named(self.role().clone(), it))
                .collect(),
            servers: once(primary).chain(replicas).collect(),
        })
    }

    /// The view of a server of a cluster: the primaries that have slots, and their replicas.
    async fn by_cluster(self) -> anyhow::Result<View> {
        let ranges: Vec<Vec<Value>> = accepted(self.ask(&["CLUSTER", "SLOTS"]).await?)?;
        let nodes = self.ask::<String>(&["CLUSTER", "NODES"]).await?;
        let nodes = nodes.unwrap_or_default();
        // `id address flags primary ping pong epoch link slots…`
        let epochs = nodes
            .lines()
            .filter_map(|line| line.split(' ').nth(6)?.parse().ok());
        // `first, last, [host, port, …] of the primary, [host, port, …] of each replica`
        let nodes = ranges.iter().flat_map(|range| {
            let roles = once(Role::Primary).chain(repeat(Role::Replica));
            range.iter().skip(2).zip(roles)
        });
        let servers = nodes.filter_map(|(node, role)| {
            let node = Vec::<Value>::from_redis_value_ref(node).ok()?;
            let host = Option::<String>::from_redis_value_ref(node.first()?).ok()?;
            let port = u16::from_redis_value_ref(node.get(1)?).ok()?;
            let server = self.at(role, &host.unwrap_or_default(), port);
            Some((server.place(), server))
        });
        let servers: BTreeMap<_, _> = servers.collect();
        let servers: Vec<_> = servers.into_values().collect();
        Ok(View {
            epoch: epochs.max().unwrap_or_default(),
            others: servers.clone(),
            servers,
        })
    }
}

#[cfg(test)]
mod tests {
    use reentry::Locks;

    use super::*;

    /// A server at this address, which is never asked.
    fn server(place: &str) -> Server {
        let builder = Locks::builder(format!("redis://{place}"));
        let seeds = Seeds::from_builder(&builder).expect("a URL");
        let Seeds::Server(server) = seeds else {
            panic!("{seeds:?}");
        };
        Server::new(Role::Primary, server, Timeouts::default())
    }

    #[tokio::test]
    async fn every_sentinel_is_asked_and_the_latest_epoch_counts() {
        let view = async |of: Server| {
            let (epoch, primary, others): (_, _, &[_]) = match of.address() {
                "a:1" => (7, "old:1", &["a:1", "b:1"]),
                "b:1" => (8, "new:1", &["a:1", "b:1", "c:1"]),
                other => return Err(anyhow!("{other} is unreachable")),
            };
            Ok(View {
                epoch,
                others: others.iter().map(|it| server(it)).collect(),
                servers: vec![server(primary)],
            })
        };
        let (asked, latest) = latest(vec![server("a:1")], view).await.expect("a view");
        let names = |servers: &[Server]| servers.iter().map(|it| it.address().to_owned()).collect();
        let (asked, primary): (Vec<_>, Vec<_>) = (names(&asked), names(&latest.servers));
        assert_eq!(
            (asked.join(" "), primary.join(" ")),
            ("a:1 b:1 c:1".into(), "new:1".into())
        );
    }

    #[test]
    fn a_server_without_an_address_has_the_one_it_was_reached_at() {
        let asked = server("10.0.0.1:7000");
        for (host, place) in [
            ("", "10.0.0.1:7001"),
            ("?", "10.0.0.1:7001"),
            ("::1", "[::1]:7001"),
        ] {
            assert_eq!(asked.at(Role::Replica, host, 7001).address(), place);
        }
    }
}

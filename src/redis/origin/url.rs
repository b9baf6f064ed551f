//! The URLs of servers.

use std::net::Ipv6Addr;
use std::sync::Arc;

use redis::parse_redis_url;

use super::Origin;
use crate::base::error::LockError;
use crate::redis::address::Parameters;
use crate::redis::address::{Address, FRAGMENT, LETTERS, Place, host_and_port, is_cut, refused};
use crate::redis::sentinels::Sentinels;

const PRIMARY_MISSING: &str =
    "the name of the primary is missing: `redis+sentinel://host:port,host:port/primary`";
const DATABASE: &str = "a cluster has only database 0";

impl Origin {
    /// Reads the URL of one server, or of several. Connects nowhere.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        match parse_several(url) {
            Some(servers) => servers,
            None => Address::parse(url).map(Self::Server),
        }
    }
}

/// Reads a URL of several servers; `None` if it is a URL of another kind.
fn parse_several(url: &str) -> Option<Result<Origin, LockError>> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let (scheme, kind) = scheme.split_once('+')?;
    let is_tls = match scheme {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return None,
    };
    match kind {
        "sentinel" => Some(parse(rest, is_tls, true)),
        "cluster" => Some(parse(rest, is_tls, false)),
        _ => None,
    }
}

fn parse(rest: &str, is_tls: bool, is_sentinel: bool) -> Result<Origin, LockError> {
    if rest
        .rsplit_once('@')
        .is_some_and(|(login, _)| is_cut(login))
    {
        return Err(refused(LETTERS));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    match (is_sentinel, path) {
        (true, "") => return Err(refused(PRIMARY_MISSING)),
        (true, _) | (false, "" | "0") => {}
        (false, _) => return Err(refused(DATABASE)),
    }
    let server = address(login, is_tls)?;
    // The query of any URL is read in the same way.
    let Some(parsed) = parse_redis_url(&format!("redis://host/?{query}")) else {
        return Err(refused("its query is invalid"));
    };
    if parsed.fragment().is_some() {
        return Err(refused(FRAGMENT));
    }
    let supported: &[_] = match is_sentinel {
        true => &[
            "db",
            "protocol",
            "sentinel_username",
            "sentinel_password",
            "sentinel_tls",
        ],
        false => &["db", "protocol"],
    };
    let parameters = Parameters::read(parsed.query_pairs(), supported);
    let mut parameters = parameters.map_err(|reason| refused(&reason))?;
    let database = parameters.database;
    let is_sentinel_tls = parameters.take("sentinel_tls").map(|value| value.parse());
    let is_sentinel_tls = is_sentinel_tls.transpose();
    let is_sentinel_tls =
        is_sentinel_tls.map_err(|_| refused("`sentinel_tls` must be `true` or `false`"))?;
    let port = if is_sentinel { 26_379 } else { 6_379 };
    let seeds = hosts.split(',').map(|host| place(host, port));
    let seeds = seeds.collect::<Option<Vec<_>>>().unwrap_or_default();
    // The first of them stands for all.
    let Some(first) = seeds.first() else {
        return Err(refused(
            "the address of a server must have the form `host:port`",
        ));
    };
    let database = database.unwrap_or_default().into();
    let server = server.at(first);
    let server = server.with(|it| it.set_db(database));
    if !is_sentinel {
        return match database {
            0 => Ok(Origin::Cluster { server, seeds }),
            _ => Err(refused(DATABASE)),
        };
    }
    let is_named = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    if !path.chars().all(is_named) {
        return Err(refused(
            "the name of a primary may contain only letters, digits, `.`, `-` and `_`",
        ));
    }
    let sentinel = address("", is_sentinel_tls.unwrap_or(is_tls))?.at(first);
    let sentinel = sentinel.with(|mut it| {
        if let Some(username) = parameters.take("sentinel_username") {
            it = it.set_username(username);
        }
        if let Some(password) = parameters.take("sentinel_password") {
            it = it.set_password(password);
        }
        it
    });
    let sentinels = Sentinels::new(path, sentinel, server, seeds);
    Ok(Origin::Sentinels(Arc::new(sentinels)))
}

/// The address of any of the servers, with the part of a URL before the `@`.
fn address(login: &str, is_tls: bool) -> Result<Address, LockError> {
    let scheme = if is_tls { "rediss" } else { "redis" };
    Address::parse(&format!("{scheme}://{login}@host"))
}

/// `host:port`, `host`, `[v6]:port` or `[v6]`.
fn place(address: &str, port: u16) -> Option<Place> {
    let (host, given) = host_and_port(address)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .filter(|host| {
            let (address, zone) = host.split_once('%').unwrap_or((host, ""));
            address.parse::<Ipv6Addr>().is_ok() && !zone.contains(['[', ']'])
        });
    let is_plain = |host: &&str| {
        !host.is_empty()
            && !host.contains(|letter: char| letter.is_whitespace() || ":/?#@[]".contains(letter))
    };
    let host = bare.or_else(|| Some(host).filter(is_plain))?;
    Some(Place::new(host, given.unwrap_or(port)))
}

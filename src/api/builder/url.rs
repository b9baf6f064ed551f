//! The servers that a URL names: one server, the primary that sentinels name, or a cluster.
//!
//! An error says why the URL cannot be used. It quotes no part that may belong to a password.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, parse_redis_url};

use crate::base::error::LockError;
use crate::redis::source::{Address, HostPort, connection_addr};
use crate::redis::{ServerSpec, Topology};

#[cfg(any(test, fuzzing))]
#[path = "../../../tests/mounted/properties/address.rs"]
pub(crate) mod properties;
#[cfg(test)]
mod tests;

const ACCEPTED_URLS: &str = "use `redis://host:port/database`, `rediss://…` for TLS, `unix:///path`, \
                        `redis+sentinel://host:port,host:port/primary`, `redis+cluster://host:port,host:port`, or `memory:`";
const PRIMARY_MISSING: &str =
    "the name of the primary is missing: `redis+sentinel://host:port,host:port/primary`";
const PRIMARY_LETTERS: &str =
    "the name of a primary may contain only letters, digits, `.`, `-` and `_`";
const CLUSTER_DATABASE: &str = "a cluster has only database 0";
const LOGIN_LETTERS: &str =
    "in a user name or password, write `/`, `?` and `#` as `%2F`, `%3F` and `%23`";

impl ServerSpec {
    /// Reads a URL. Connects nowhere.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        if let Some((scheme, kind, rest)) = split_scheme(url) {
            return parse_several(&scheme, kind, rest);
        }
        let (server, _) = parse_one(url, &["db", "protocol"])?;
        Ok(Self {
            server,
            topology: Topology::One,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sentinel,
    Cluster,
}

/// Splits the URL of several servers into the scheme of each of them, the kind, and the rest. `None` for any other URL.
fn split_scheme(url: &str) -> Option<(String, Kind, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    // `redis+unix` is a scheme of one server, so only these kinds are split off.
    let (scheme, kind) = scheme.split_once('+')?;
    let kind = match kind {
        "sentinel" => Kind::Sentinel,
        "cluster" => Kind::Cluster,
        _ => return None,
    };
    let is_known = matches!(scheme, "redis" | "valkey" | "rediss" | "valkeys");
    is_known.then(|| (scheme.to_owned(), kind, rest))
}

/// Reads `[login@]host[,host…][/path][?query]`.
fn parse_several(scheme: &str, kind: Kind, rest: &str) -> Result<ServerSpec, LockError> {
    // Checked before the parts are split: a login that is cut short would be taken for a path or a query.
    let login = rest.rsplit_once('@').map(|(login, _)| login);
    if login.is_some_and(is_cut) {
        return Err(invalid(LOGIN_LETTERS));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // The last one, because a password may contain others.
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let supported: &[_] = match (kind, path) {
        (Kind::Sentinel, "") => return Err(invalid(PRIMARY_MISSING)),
        (Kind::Sentinel, _) => &[
            "db",
            "protocol",
            "sentinel_username",
            "sentinel_password",
            "sentinel_tls",
        ],
        (Kind::Cluster, "" | "0") => &["db", "protocol"],
        (Kind::Cluster, _) => return Err(invalid(CLUSTER_DATABASE)),
    };
    // All that the URL says about each server is read as the URL of one.
    let (mut server, mut parameters) =
        parse_one(&format!("{scheme}://{login}@host?{query}"), supported)?;
    let is_sentinel_tls = match parameters.remove("sentinel_tls").as_deref() {
        // As for the servers, unless the URL says otherwise.
        None => server.is_tls(),
        Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(invalid("`sentinel_tls` must be `true` or `false`")),
    };
    let port = match kind {
        Kind::Sentinel => 26_379,
        Kind::Cluster => 6_379,
    };
    let seeds = hosts.split(',').map(|host| host_port(host, port));
    let seeds = seeds.collect::<Option<Vec<_>>>().unwrap_or_default();
    // The first of them stands for all.
    let Some(first) = seeds.first() else {
        return Err(invalid(
            "the address of a server must have the form `host:port`",
        ));
    };
    server = server.with_place(first);
    let topology = match kind {
        Kind::Cluster if server.info.redis_settings().db() != 0 => {
            return Err(invalid(CLUSTER_DATABASE));
        }
        Kind::Cluster => Topology::Cluster { seeds },
        Kind::Sentinel => {
            let is_named = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
            if !path.chars().all(is_named) {
                return Err(invalid(PRIMARY_LETTERS));
            }
            // Sentinels have logins of their own.
            let scheme = if is_sentinel_tls { "rediss" } else { "redis" };
            let (sentinel, _) = parse_one(&format!("{scheme}://host"), &[])?;
            let mut sentinel = sentinel.with_place(first);
            if let Some(user) = parameters.remove("sentinel_username") {
                sentinel.change_settings(|it| it.set_username(user));
            }
            if let Some(password) = parameters.remove("sentinel_password") {
                sentinel.change_settings(|it| it.set_password(password));
            }
            let primary = path.to_owned();
            Topology::Sentinels {
                primary,
                sentinel,
                seeds,
            }
        }
    };
    Ok(ServerSpec { server, topology })
}

/// `host:port`, `host`, `[v6]:port` or `[v6]`.
fn host_port(address: &str, port: u16) -> Option<HostPort> {
    let (host, given) = HostPort::split(address)?;
    // The brackets are no part of the host. What follows `%` is the zone of a link-local address.
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
    Some(HostPort::new(host, given.unwrap_or(port)))
}

/// The parameters of a URL, by their names.
type Parameters = BTreeMap<&'static str, String>;

/// Reads the URL of one server, and the parameters, which must be among these. That of a socket has its login there.
fn parse_one(url: &str, supported: &[&'static str]) -> Result<(Address, Parameters), LockError> {
    let Some(mut parsed) = parse_redis_url(url) else {
        return Err(invalid(&format!(
            "{}; {ACCEPTED_URLS}",
            scheme_mistake(url)
        )));
    };
    let is_tls = matches!(parsed.scheme(), "rediss" | "valkeys");
    if is_tls {
        if cfg!(not(feature = "tls")) {
            let reason = "it requires TLS: enable the feature `tls` of this crate";
            return Err(invalid(reason));
        }
        // The driver reads the rest of the URL, and opens no socket.
        let _ = parsed.set_scheme("redis");
    }
    // The part before the last `@` is meant as user name and password. If it contains one of these letters, it ends
    // too early, and its beginning is taken for the host.
    let login = url
        .rsplit_once('@')
        .and_then(|(login, _)| login.split_once(':'));
    let login = login.map(|(_, login)| login.trim_start_matches(['/', '\t', '\r', '\n']));
    if login.is_some_and(is_cut) && parsed.host_str().is_some_and(|host| !host.is_empty()) {
        return Err(invalid(LOGIN_LETTERS));
    }
    let is_socket = parsed.scheme().ends_with("unix");
    let supported = match is_socket {
        true => &["db", "protocol", "user", "pass"],
        false => supported,
    };
    let mut parameters =
        parse_query(parsed.query_pairs(), supported).map_err(|reason| invalid(&reason))?;
    let database = parameters.remove("db").map(|value| value.parse::<u32>());
    let database = database.transpose();
    let database = database.map_err(|_| invalid("`db` must be the number of a database"))?;
    if parsed.fragment().is_some() {
        return Err(invalid("write `#` as `%23`"));
    }
    if is_socket && (!parsed.username().is_empty() || parsed.password().is_some()) {
        return Err(invalid(
            "the login of a socket is in its parameters: `unix:///path?user=…&pass=…`",
        ));
    }
    let has_path = !is_socket && !parsed.path().trim_matches('/').is_empty();
    let info = parsed.into_connection_info().map_err(|error| {
        // The detail quotes the URL.
        let text = error.to_string();
        let detail = error.detail().map(|detail| format!(": {detail}"));
        invalid(text.trim_end_matches(detail.as_deref().unwrap_or_default()))
    })?;
    let settings = info.redis_settings().clone();
    // The driver reads the parameter only of a socket.
    let database = database.map_or(settings.db(), i64::from);
    // Which of the two is meant cannot be known.
    if has_path && database != settings.db() {
        return Err(invalid("its path and `db` name two databases"));
    }
    let settings = settings
        .set_db(database)
        // Every server and every proxy has it, and no connection needs more.
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("reentry", env!("CARGO_PKG_VERSION"));
    let mut info = info.set_redis_settings(settings);
    if let ConnectionAddr::Tcp(host, port) = info.addr().clone() {
        info = info.set_addr(connection_addr(HostPort { host, port }, is_tls));
    }
    Ok((Address::new(info), parameters))
}

/// The reason why a text is not the URL of a server.
fn scheme_mistake(url: &str) -> &'static str {
    if url.is_empty() {
        "it is empty"
    } else if url.starts_with("memory:") {
        "nothing may follow after `memory:`"
    } else if url.contains("://") {
        "it is not the URL of a Redis server"
    } else {
        "it does not begin with `redis://`"
    }
}

fn invalid(reason: &str) -> LockError {
    LockError::config(format!("invalid URL: {reason}"))
}

/// Returns whether a letter ends a user name or password too early.
fn is_cut(login: &str) -> bool {
    login.contains(['/', '?', '#'])
}

/// Reads parameters, each of which is supported, and set once. The error is the reason why they cannot be used, and has
/// no value of a parameter.
fn parse_query<'u>(
    pairs: impl Iterator<Item = (Cow<'u, str>, Cow<'u, str>)>,
    supported: &[&'static str],
) -> Result<Parameters, String> {
    const SECRETS: [&str; 2] = ["pass", "sentinel_password"];
    let pairs: Vec<_> = pairs.collect();
    let mut parameters = Parameters::new();
    for (name, value) in &pairs {
        let Some(known) = supported.iter().find(|known| *known == name) else {
            // A password with an unescaped `&` continues in the name of the next parameter, so that name is not quoted.
            let has_secret = parameters.keys().any(|it| SECRETS.contains(it))
                || pairs
                    .iter()
                    .any(|(name, value)| name.contains('@') || value.contains('@'));
            return Err(unknown_parameter(name, has_secret, supported));
        };
        let before = parameters.insert(*known, value.clone().into_owned());
        if before.is_some() {
            return Err(format!("`{known}` is set twice"));
        }
    }
    Ok(parameters)
}

/// The reason why a parameter cannot be used. With a secret in the URL, the name may be a part of it: an unescaped `&`
/// or `?` ends a password too early.
fn unknown_parameter(name: &str, has_secret: bool, supported: &[&str]) -> String {
    let is_name = |letter: char| letter.is_ascii_alphabetic() || "_-".contains(letter);
    let what = if has_secret || name.is_empty() || !name.chars().all(is_name) {
        "an unknown parameter (in a value, write `&` as `%26`)".to_owned()
    } else {
        format!("the unknown parameter `{name}`")
    };
    let supported = supported.join("`, `");
    format!("it has {what}; the supported parameters are `{supported}`")
}

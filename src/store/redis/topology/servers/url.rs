//! The URLs of several servers.

use redis::parse_redis_url;

use super::{DATABASE, Login, Servers};
use crate::base::error::LockError;
use crate::store::redis::link::address::{Address, LETTERS, is_cut, refused};

/// What the query of a URL with sentinels may say.
const PARAMETERS: &str =
    "its parameters are `db`, `sentinel_username`, `sentinel_password` and `sentinel_tls`";

impl Servers {
    /// What a URL of several servers says; `None` if it is none of those.
    pub(super) fn parse(url: &str) -> Option<Result<Self, LockError>> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let (scheme, kind) = scheme.split_once('+')?;
        let is_tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return None,
        };
        let is_sentinel = match kind {
            "sentinel" => true,
            "cluster" => false,
            _ => return None,
        };
        Some(Self::parse_rest(rest, is_sentinel).map(|servers| Self { is_tls, ..servers }))
    }

    fn parse_rest(rest: &str, is_sentinel: bool) -> Result<Self, LockError> {
        if rest
            .rsplit_once('@')
            .is_some_and(|(login, _)| is_cut(login))
        {
            return Err(refused(LETTERS));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let hosts = hosts.split(',');
        let mut servers = match (is_sentinel, path) {
            (true, "") => {
                let reason = "the name of the primary is missing: `redis+sentinel://host:port,host:port/primary`";
                return Err(refused(reason));
            }
            (true, primary) => Self::sentinel(hosts, primary),
            (false, "" | "0") => Self::cluster(hosts),
            (false, _) => return Err(refused(DATABASE)),
        };
        servers.login = Login::parse(login)?;
        // The query of any URL is read in the same way.
        let Some(parsed) = parse_redis_url(&format!("redis://host/?{query}")) else {
            return Err(refused("its query cannot be read"));
        };
        for (name, value) in parsed.query_pairs() {
            let value = value.into_owned();
            servers = match &*name {
                "db" if is_sentinel => match value.parse() {
                    Ok(database) => servers.database(database),
                    Err(_) => return Err(refused("`db` is no number")),
                },
                "sentinel_username" if is_sentinel => servers.sentinel_username(value),
                "sentinel_password" if is_sentinel => servers.sentinel_password(value),
                "sentinel_tls" if is_sentinel => match value.parse() {
                    Ok(is_tls) => servers.sentinel_tls(is_tls),
                    Err(_) => return Err(refused("`sentinel_tls` is `true` or `false`")),
                },
                _ if is_sentinel => return Err(refused(PARAMETERS)),
                _ => return Err(refused("the URL of a cluster has no parameters")),
            };
        }
        Ok(servers)
    }
}

impl Login {
    /// What stands before the `@` of a URL.
    fn parse(login: &str) -> Result<Self, LockError> {
        if login.is_empty() {
            return Ok(Self::default());
        }
        let address = Address::parse(&format!("redis://{login}@host"))?;
        let settings = address.info.redis_settings();
        Ok(Self {
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
        })
    }
}

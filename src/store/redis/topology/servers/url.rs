//! The URLs of several servers.

use redis::parse_redis_url;

use super::{DATABASE, Login, Servers};
use crate::base::error::LockError;
use crate::store::redis::link::address::{Address, FRAGMENT, LETTERS, is_cut, refused};
use crate::store::redis::link::parameters::Parameters;

impl Servers {
    /// Reads a URL of several servers; `None` if it is a URL of another kind.
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
        servers.protocol = parameters.protocol;
        servers.database = parameters.database.unwrap_or_default().into();
        servers.sentinel_login = Login {
            username: parameters.take("sentinel_username"),
            password: parameters.take("sentinel_password"),
        };
        let is_tls = parameters.take("sentinel_tls").map(|value| value.parse());
        let is_tls = is_tls.transpose();
        servers.is_sentinel_tls =
            is_tls.map_err(|_| refused("`sentinel_tls` must be `true` or `false`"))?;
        Ok(servers)
    }
}

impl Login {
    /// Reads the part of a URL before the `@`.
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

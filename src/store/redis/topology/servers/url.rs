//! The URLs of several servers.

use redis::parse_redis_url;

use super::{DATABASE, Kind, Login, Servers};
use crate::base::error::LockError;
use crate::store::redis::link::address::{Address, LETTERS, is_cut, refused};

/// The parameters of a URL of sentinels.
const PARAMETERS: &str = "the supported parameters are `db`, `protocol`, `sentinel_username`, `sentinel_password` and `sentinel_tls`";

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
        let mut parameters = parsed.query_pairs();
        parameters.try_fold(servers, |servers, (name, value)| {
            let set = servers.with_parameter(&name, value.into_owned());
            set.map_err(refused)
        })
    }

    /// Sets a parameter of the URL. The error is the reason why it cannot be set.
    fn with_parameter(self, name: &str, value: String) -> Result<Self, &'static str> {
        if name == "protocol" {
            return match &*value {
                "resp2" | "2" => Ok(self.resp2()),
                "resp3" | "3" => Ok(self),
                _ => Err("`protocol` must be `resp2` or `resp3`"),
            };
        }
        if matches!(self.kind, Kind::Cluster) {
            return Err("the URL of a cluster supports only the parameter `protocol`");
        }
        match name {
            "db" => {
                let database = value
                    .parse()
                    .map_err(|_| "`db` must be the number of a database")?;
                Ok(self.database(database))
            }
            "sentinel_username" => Ok(self.sentinel_username(value)),
            "sentinel_password" => Ok(self.sentinel_password(value)),
            "sentinel_tls" => {
                let is_tls = value.parse();
                let is_tls = is_tls.map_err(|_| "`sentinel_tls` must be `true` or `false`")?;
                Ok(self.sentinel_tls(is_tls))
            }
            _ => Err(PARAMETERS),
        }
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

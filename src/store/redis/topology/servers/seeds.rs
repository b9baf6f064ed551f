//! The addresses in a URL, for the command line, which asks the servers there one by one.

use redis::ConnectionInfo;

use super::Origin;
use crate::base::error::LockError;
use crate::store::redis::link::address::Address;

/// The servers that a URL names, and how each of them is connected to. The others are found by asking these.
#[derive(Debug)]
pub enum Seeds {
    /// A single server.
    Server(ConnectionInfo),
    /// The sentinels of a primary.
    Sentinels {
        /// The name of the primary.
        primary: String,
        /// The sentinels.
        sentinels: Vec<ConnectionInfo>,
        /// How the primary and its replicas are connected to, wherever they are.
        server: ConnectionInfo,
    },
    /// Servers of a cluster.
    Cluster(Vec<ConnectionInfo>),
}

impl Seeds {
    /// Reads a URL. Connects nowhere.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] for a URL that cannot be used.
    pub fn of(url: &str) -> Result<Self, LockError> {
        let all = |of: &Address, places: &[_]| places.iter().map(|it| of.at(it).info).collect();
        Ok(match Origin::parse(url)? {
            Origin::Server(server) => Self::Server(server.info),
            Origin::Sentinels(set) => Self::Sentinels {
                primary: set.name.to_string(),
                sentinels: all(&set.sentinel, &set.seeds),
                server: set.server.info.clone(),
            },
            Origin::Cluster { server, seeds } => Self::Cluster(all(&server, &seeds)),
        })
    }
}

//! The replication ID of a server. It distinguishes the server from those that respond in its place before and after
//! it.

use std::sync::Arc;

/// The `master_replid` of a server, which names its data. It changes with each failover and each restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationId(Arc<str>);

impl ReplicationId {
    pub(crate) fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// Reads the response to `INFO replication`. `None` unless it is that of a primary, because a replica gives the ID
    /// of its primary.
    pub(crate) fn read(info: &str) -> Option<Self> {
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let id = of("master_replid:").filter(|_| of("role:") == Some("master"));
        id.map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_has_an_id_and_a_replica_none() {
        let info = "# Replication\r\nrole:master\r\nmaster_replid:abc\r\nmaster_replid2:000\r\n";
        assert_eq!(ReplicationId::read(info), Some(ReplicationId::new("abc")));
        assert_eq!(
            ReplicationId::read(&info.replace("master\r", "slave\r")),
            None
        );
        assert_eq!(ReplicationId::read(""), None);
    }
}

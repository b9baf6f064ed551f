//! How Redis is looked through: `SCAN` of every primary, one part after the other.

use std::sync::Arc;

use redis::{FromRedisValue, Value, cmd};

use super::connect::Connector;
use super::connect::common::Common;
use super::topology::Topology;
use super::wire::call::{Call, Way};
use super::wire::value::Unexpected;
use crate::base::error::StoreError;
use crate::store::records::{Cursor, Scan, ScanPlace, Scanned, ServerCursor};

/// Shows a part of the names of the keys.
pub(super) async fn scan(
    topology: Topology,
    common: Common,
    scan: Scan,
) -> Result<Scanned, StoreError> {
    let primaries = topology.primaries().await?;
    let scanned = look_through(&primaries, &common, scan).await;
    if scanned.is_err() {
        topology.doubt();
    }
    scanned
}

/// A server that has locks, by its name.
type Primary = (Arc<str>, Arc<Connector>);

impl Topology {
    /// Those that have locks, in an order that stays.
    async fn primaries(&self) -> Result<Vec<Primary>, StoreError> {
        match self {
            Self::One(connector) => Ok(vec![(Arc::from(""), Arc::clone(connector))]),
            Self::Cluster(cluster) => cluster.primaries().await,
        }
    }

    /// The servers may be others by now.
    fn doubt(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.learn_soon();
        }
    }
}

/// Looks at some keys of one primary: of the one at which the scan is, or of the next one.
async fn look_through(
    primaries: &[Primary],
    common: &Common,
    scan: Scan,
) -> Result<Scanned, StoreError> {
    let Cursor { mut done, present } = scan.from;
    let is_left = |(server, _): &&Primary| !done.contains(server);
    let at_present = present
        .as_ref()
        .and_then(|at| primaries.iter().find(|(server, _)| *server == at.server));
    let Some((server, connector)) = at_present.or_else(|| primaries.iter().find(is_left)) else {
        return Ok(Scanned {
            names: Vec::new(),
            unnamed: 0,
            next: None,
            progress: 1.0,
        });
    };
    let passage = connector.passage().await?;
    let connection = &passage.connection;
    let replication_id = connection.replication_id.id();
    let goes_on = |at: &ServerCursor| at.server == *server && at.replication_id == *replication_id;
    let mut at = match present.filter(goes_on) {
        Some(at) => at,
        None => beginning(server, connector, replication_id).await,
    };
    let call = part(&at.place, &scan.pattern, scan.count);
    let limit = common.timeouts.response;
    let asked = connector.send(&passage, &call, Way::Plain, limit).await;
    let reply = asked.map_err(|cause| connection.failed(&call, cause))?;
    let (cursor, names, unnamed) = common.read(connection, call, reply, scanned)?;
    at.seen = at.seen.saturating_add(scan.count as u64);
    at.place = ScanPlace::Named(cursor);
    let mut here = progress(&at);
    let mut present = Some(at);
    if cursor == 0 {
        here = 0.0;
        present = None;
        done.push(Arc::clone(server));
    }
    let looked = primaries.iter().filter(|(server, _)| done.contains(server));
    let before = looked.count();
    let is_over = present.is_none() && before == primaries.len();
    Ok(Scanned {
        names,
        unnamed,
        next: (!is_over).then_some(Cursor { done, present }),
        progress: ((before as f64 + here) / primaries.len() as f64).min(1.0),
    })
}

/// The beginning of a server.
async fn beginning(
    server: &Arc<str>,
    connector: &Arc<Connector>,
    replication_id: &Arc<str>,
) -> ServerCursor {
    ServerCursor {
        server: Arc::clone(server),
        replication_id: Arc::clone(replication_id),
        place: ScanPlace::Named(0),
        // A user may not be allowed to know.
        keys: count_of_keys(connector).await.ok(),
        seen: 0,
    }
}

/// The request for the keys behind this place.
fn part(place: &ScanPlace, pattern: &str, count: usize) -> Call {
    let cursor = match place {
        ScanPlace::Named(cursor) => *cursor,
        ScanPlace::Behind(_) => 0,
    };
    let mut command = cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(pattern);
    command.arg("COUNT").arg(count).arg("TYPE").arg("hash");
    Call::command("scan", command)
}

/// Which part of the keys of a server has been looked at.
fn progress(at: &ServerCursor) -> f64 {
    match at.keys {
        Some(keys @ 1..) => (at.seen as f64 / keys as f64).min(0.99),
        _ => 0.0,
    }
}

async fn count_of_keys(connector: &Arc<Connector>) -> Result<u64, StoreError> {
    let call = Call::command("dbsize", cmd("DBSIZE"));
    let read = |reply: Value| match reply {
        Value::Int(keys) => u64::try_from(keys).map_err(|_| Unexpected(Value::Int(keys))),
        other => Err(Unexpected(other)),
    };
    Arc::clone(connector).run(call, read).await
}

/// The reply to a `SCAN`: the cursor, which is a number in a text, the keys, and how many are no text.
fn scanned(reply: Value) -> Result<(u64, Vec<String>, u64), Unexpected> {
    let parse = |reply: &Value| {
        let Value::Array(values) = reply else {
            return None;
        };
        let [cursor, Value::Array(keys)] = &values[..] else {
            return None;
        };
        let cursor = String::from_redis_value_ref(cursor).ok()?.parse().ok()?;
        let names = keys.iter().filter_map(|key| match key {
            Value::BulkString(key) => str::from_utf8(key).ok().map(str::to_owned),
            _ => None,
        });
        let names: Vec<_> = names.collect();
        let unnamed = (keys.len() - names.len()) as u64;
        Some((cursor, names, unnamed))
    };
    parse(&reply).ok_or(Unexpected(reply))
}

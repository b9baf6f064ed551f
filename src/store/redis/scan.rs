//! The scan of Redis: `SCAN` of each primary, one part after the other.

use std::sync::Arc;

use redis::{FromRedisValue, Value, cmd};

use super::connect::Connector;
use super::connect::common::Common;
use super::topology::Topology;
use super::wire::call::{Call, Way};
use super::wire::question::{Question, Short};
use super::wire::reply::Unexpected;
use crate::base::error::{Effect, StoreError};
use crate::store::records::{Cursor, Scan, ScanPlace, Scanned, ServerCursor};

/// Returns the names of some keys, which are on the primary that the scan has reached, or on the next one.
pub(super) async fn scan(
    topology: Topology,
    common: Common,
    scan: Scan,
) -> Result<Scanned, StoreError> {
    let primaries = topology.primaries().await?;
    let Cursor { mut done, present } = scan.from;
    let present_server = present.as_ref().map(|at| &at.server);
    let at_present = |(server, _): &&Primary| Some(server) == present_server;
    let is_left = |(server, _): &&Primary| !done.contains(server);
    let mut all = primaries.iter();
    let Some(primary) = all.clone().find(at_present).or_else(|| all.find(is_left)) else {
        return Ok(Scanned {
            names: Vec::new(),
            unnamed: 0,
            next: None,
            progress: 1.0,
        });
    };
    let looked = look_at(primary, &common, present, &scan.pattern, scan.count);
    let part = looked.await.inspect_err(|_| topology.doubt())?;
    if part.next.is_none() {
        done.push(Arc::clone(&primary.0));
    }
    let looked = primaries.iter().filter(|(server, _)| done.contains(server));
    let before = looked.count();
    let here = part.next.as_ref().map_or(0.0, progress);
    let is_over = part.next.is_none() && before == primaries.len();
    Ok(Scanned {
        names: part.names,
        unnamed: part.unnamed,
        progress: ((before as f64 + here) / primaries.len() as f64).min(1.0),
        next: (!is_over).then_some(Cursor {
            done,
            present: part.next,
        }),
    })
}

/// A server that has locks, with its name.
type Primary = (Arc<str>, Arc<Connector>);

impl Topology {
    /// The servers that have locks, in a stable order.
    async fn primaries(&self) -> Result<Vec<Primary>, StoreError> {
        match self {
            Self::One(connector) => Ok(vec![(Arc::from(""), Arc::clone(connector))]),
            Self::Cluster(cluster) => cluster.primaries().await,
        }
    }

    /// Notes that there may be other servers by now.
    fn doubt(&self) {
        if let Self::Cluster(cluster) = self {
            cluster.learn_soon();
        }
    }
}

/// A part of the keys of one primary.
struct ScannedPart {
    names: Vec<String>,
    /// The number of keys whose names are not text.
    unnamed: u64,
    /// The place at which the next part begins; `None` at the end of the primary.
    next: Option<ServerCursor>,
}

/// Reads the names of some keys of a primary. They follow `present` if that is a place in its data. Otherwise they are
/// the first ones.
async fn look_at(
    (server, connector): &Primary,
    common: &Common,
    present: Option<ServerCursor>,
    pattern: &str,
    count: usize,
) -> Result<ScannedPart, StoreError> {
    let passage = connector.passage().await?;
    let connection = &passage.connection;
    let replication_id = connection.replication_id.id();
    let goes_on = |at: &ServerCursor| at.server == *server && at.replication_id == *replication_id;
    let mut at = match present.filter(goes_on) {
        Some(at) => at,
        None => ServerCursor {
            server: Arc::clone(server),
            replication_id: Arc::clone(replication_id),
            place: ScanPlace::Named(0),
            // The user may not be allowed to read the number of keys.
            keys: count_of_keys(connector).await.ok(),
            seen: 0,
        },
    };
    let call = part(&at.place, pattern, count);
    let limit = common.timeouts.response;
    let asked = connector.send(&passage, &call, Way::Plain, limit).await;
    let reply = asked.map_err(|cause| connection.failed(call.verb(), cause))?;
    let scanned = scanned(reply);
    let (cursor, names, unnamed) =
        scanned.map_err(|cause| connection.error(call.verb(), Effect::Unknown, cause))?;
    at.seen = at.seen.saturating_add(count as u64);
    at.place = ScanPlace::Named(cursor);
    Ok(ScannedPart {
        names,
        unnamed,
        next: (cursor != 0).then_some(at),
    })
}

/// The request for the keys after this place.
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

/// The fraction of the keys of a server that has been covered, from 0 to 1.
fn progress(at: &ServerCursor) -> f64 {
    match at.keys {
        Some(keys @ 1..) => (at.seen as f64 / keys as f64).min(0.99),
        _ => 0.0,
    }
}

async fn count_of_keys(connector: &Arc<Connector>) -> Result<u64, StoreError> {
    connector.run(&CountOfKeys).await
}

struct CountOfKeys;

impl Question for CountOfKeys {
    type Reply = u64;

    fn verb(&self) -> &'static str {
        "dbsize"
    }

    fn call(&self) -> Call {
        Call::command(self.verb(), cmd("DBSIZE"))
    }

    fn goes_with_others(&self) -> bool {
        false
    }

    fn short(&self) -> Option<Short> {
        None
    }

    fn read(&self, reply: Value) -> Result<u64, Unexpected> {
        match reply {
            Value::Int(keys) => u64::try_from(keys).map_err(|_| Unexpected(Value::Int(keys))),
            other => Err(Unexpected(other)),
        }
    }
}

/// Reads the reply to a `SCAN`: the cursor, which is a number in a text, the names, and the number of names that are
/// not text.
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

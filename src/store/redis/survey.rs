//! How Redis is looked through: `SCAN` of every primary, one part after the other, and short scripts for what stands there.

use std::{error::Error, sync::Arc};

use redis::{FromRedisValue, Value, cmd};

use super::{
    call::{Call, Way, lock_and_line},
    connect::{Connector, common::Common},
    failure::{self, DriverError},
    names::Entries,
    reply::{self, Unexpected},
    script::{GLANCE, QUEUE},
    topology::{Topology, servers::Origin},
};
#[cfg(any(test, feature = "__admin"))]
use crate::store::members::Member;
use crate::{
    base::{error::StoreError, id::HoldId, key::LockKey, mode::Mode},
    store::{
        Answer, StoreTime,
        survey::{
            Cursor, GLANCED, Glance, InServer, LOOKED_AT, Place, QueuePage, Queued, QueuedProcess,
            Scan, Scanned, Survey,
        },
    },
};

/// Where operators look: over the connections for commands.
#[derive(Debug)]
pub(super) struct Surveyor {
    topology: Topology,
    common: Common,
    /// None where only a pool is known.
    #[cfg(any(test, feature = "__admin"))]
    origin: Option<Origin>,
}

impl Surveyor {
    pub(super) fn new(topology: Topology, common: Common, _origin: Option<Origin>) -> Self {
        Self {
            topology,
            common,
            #[cfg(any(test, feature = "__admin"))]
            origin: _origin,
        }
    }
}

impl Survey for Surveyor {
    fn scan(&self, scan: Scan) -> Answer<Scanned> {
        let (topology, common) = (self.topology.clone(), self.common.clone());
        Box::pin(async move {
            let primaries = topology.primaries().await?;
            let scanned = look_through(&primaries, &common, scan).await;
            if scanned.is_err() {
                topology.doubt();
            }
            scanned
        })
    }

    fn glance(&self, key: &LockKey) -> Answer<Option<Glance>> {
        let call = lock_and_line(&GLANCE, key).arg(GLANCED).arg(LOOKED_AT);
        self.topology.ask(call, glance)
    }

    fn refuses_key(&self, error: &StoreError) -> bool {
        let cause = error.source().and_then(|it| it.downcast_ref());
        cause.is_some_and(|DriverError(error)| failure::refuses_key(error))
    }

    fn queue(&self, key: &LockKey, page: QueuePage) -> Answer<Queued> {
        let after = page.after.map(|order| order.to_string());
        let call = QUEUE.call(2).arg(key.line()).arg(Entries(key));
        let call = call.arg(after.unwrap_or_default()).arg(page.count);
        self.topology.ask(call, queued)
    }

    #[cfg(any(test, feature = "__admin"))]
    fn members(&self) -> Answer<Vec<Member>> {
        let (topology, timeouts) = (self.topology.clone(), self.common.timeouts);
        let origin = self.origin.clone();
        Box::pin(async move {
            match origin {
                Some(origin) => origin.members(&topology, timeouts).await,
                None => Ok(Vec::new()),
            }
        })
    }
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
    let history = connection.replication_id.id();
    let goes_on = |at: &InServer| at.server == *server && at.history == *history;
    let mut at = match present.filter(goes_on) {
        Some(at) => at,
        None => InServer {
            server: Arc::clone(server),
            history: Arc::clone(history),
            place: Place::Named(0),
            // A user may not be allowed to know.
            keys: count_of_keys(connector).await.ok(),
            seen: 0,
        },
    };
    let cursor = match at.place {
        Place::Named(cursor) => cursor,
        Place::Behind(_) => 0,
    };
    let mut command = cmd("SCAN");
    command.arg(cursor).arg("MATCH").arg(&*scan.pattern);
    command.arg("COUNT").arg(scan.count).arg("TYPE").arg("hash");
    let call = Call::command("scan", command);
    let limit = common.timeouts.response;
    let asked = connector.send(&passage, &call, Way::Plain, limit).await;
    let reply = asked.map_err(|cause| connection.failed(&call, cause))?;
    let (cursor, names, unnamed) = common.read(connection, call, reply, scanned)?;
    at.seen = at.seen.saturating_add(scan.count as u64);
    at.place = Place::Named(cursor);
    let all = primaries.len().max(1) as f64;
    let here = if cursor == 0 { 1.0 } else { part(&at) };
    let before = primaries.iter().filter(|(server, _)| done.contains(server));
    let progress = (before.count() as f64 + here) / all;
    let present = if cursor == 0 {
        done.push(Arc::clone(server));
        None
    } else {
        Some(at)
    };
    let is_over = present.is_none() && primaries.iter().all(|(server, _)| done.contains(server));
    Ok(Scanned {
        names,
        unnamed,
        next: (!is_over).then_some(Cursor { done, present }),
        progress: progress.min(1.0),
    })
}

/// Which part of the keys of a server has been looked at.
fn part(at: &InServer) -> f64 {
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
    connector.run(call, read).await
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

/// The reply to a glance: that to an inspection, with the count of the holders behind the time.
fn glance(reply: Value) -> Result<Option<Glance>, Unexpected> {
    let Value::Array(mut values) = reply else {
        return Err(Unexpected(reply));
    };
    if values.is_empty() {
        return Ok(None);
    }
    const COUNT: usize = 5;
    let Some(&Value::Int(holders)) = values.get(COUNT) else {
        return Err(Unexpected(Value::Array(values)));
    };
    values.remove(COUNT);
    let snapshot = reply::snapshot(Value::Array(values))?;
    let glance = |snapshot| Glance {
        snapshot,
        holders: u64::try_from(holders).unwrap_or_default(),
    };
    Ok(snapshot.map(glance))
}

fn queued(reply: Value) -> Result<Queued, Unexpected> {
    parse_queued(&reply).ok_or(Unexpected(reply))
}

fn parse_queued(reply: &Value) -> Option<Queued> {
    let Value::Array(values) = reply else {
        return None;
    };
    let [Value::Int(at), Value::Int(places), rest @ ..] = &values[..] else {
        return None;
    };
    let (processes, []) = rest.as_chunks::<6>() else {
        return None;
    };
    let processes = processes.iter().map(process);
    Some(Queued {
        at: StoreTime {
            micros: u64::try_from(*at).ok()?,
        },
        places: u64::try_from(*places).ok()?,
        processes: processes.collect::<Option<_>>()?,
    })
}

fn process(values: &[Value; 6]) -> Option<QueuedProcess> {
    let [
        Value::BulkString(inbox),
        Value::Int(order),
        Value::Int(deadline),
        Value::BulkString(holds),
        Value::Int(grant),
        Value::Int(is_shared @ 0..=1),
    ] = values
    else {
        return None;
    };
    let holds = str::from_utf8(holds).unwrap_or_default().split(',');
    let deadline = u64::try_from(*deadline).ok().filter(|micros| *micros > 0);
    Some(QueuedProcess {
        inbox: inbox.clone(),
        order: u64::try_from(*order).ok()?,
        deadline: deadline.map(|micros| StoreTime { micros }),
        holds: holds
            .filter_map(|hold| hold.parse::<HoldId>().ok())
            .collect(),
        grant: reply::millis(*grant)?,
        mode: if *is_shared == 1 {
            Mode::Shared
        } else {
            Mode::Exclusive
        },
    })
}

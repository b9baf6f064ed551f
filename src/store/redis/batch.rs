//! One call that executes many short requests.

use std::time::Duration;

use redis::Value;

use super::wire::call::{Call, Script, script};
use super::wire::names::Field;
use super::wire::question::{Short, ShortWish};
use crate::base::id::InboxId;

/// How many requests travel together at most, so that no script keeps the server for long.
pub(crate) const MOST: usize = 32;

/// What the requests of one call have in common.
pub(crate) type Terms = (Duration, Option<InboxId>);

pub(crate) fn lua() -> &'static Script {
    script!("batch")
}

/// What a request takes a lock with. A release has nothing in common with other requests.
pub(crate) fn terms(request: &Short) -> Option<Terms> {
    match request.wish {
        ShortWish::Acquire { ttl, told } => Some((ttl, told)),
        ShortWish::Release { .. } => None,
    }
}

/// The call that executes these requests. The releases come first, and the others have the same terms.
pub(crate) fn call<'s>(requests: impl Iterator<Item = &'s Short> + Clone) -> Call {
    let releases = requests.clone().take_while(|it| it.is_release()).count();
    let call = lua().call(2 * requests.clone().count());
    let keys = requests.clone().map(|request| &request.key);
    let call = keys.fold(call, |call, key| call.arg(key.as_str()).arg(key.line()));
    let (ttl, told) = requests.clone().find_map(terms).unwrap_or_default();
    let call = call.arg(releases).millis(ttl);
    let call = match told {
        Some(inbox) => call.arg(inbox.id()),
        None => call.arg(""),
    };
    let holds = requests.map(|request| Field(request.hold));
    holds.fold(call, Call::arg)
}

/// The replies to these requests, each as it would be alone. A request whose reply is 0 has changed nothing, and has to be
/// made alone. `None` if it is no reply of the script.
pub(crate) fn replies(reply: &Value, requests: usize, releases: usize) -> Option<Vec<i64>> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let [Value::Int(token), Value::BulkString(done)] = &parts[..] else {
        return None;
    };
    let reply = |(at, done): (usize, &u8)| match done {
        b'0' => Some(0),
        b'1' if at < releases => Some(1),
        b'1' => Some(*token),
        _ => None,
    };
    let replies = done.iter().enumerate().map(reply).collect();
    (done.len() == requests).then_some(replies).flatten()
}

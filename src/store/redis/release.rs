//! The requests that end a hold.

use super::{
    call::{Call, lock_and_line, millis},
    names::Field,
    script::{RELEASE, RETAIN, UNSHARE},
};
use crate::{
    base::{key::LockKey, mode::Mode},
    store::{Order, ReleaseRequest},
};

/// Lets a lock stand until it was held for so long, if it is to. It says whether it does: not if it was held for so long
/// already, and not if the hold is not in it.
pub(super) fn retain(key: &LockKey, request: ReleaseRequest) -> Option<Call> {
    let min_hold = request.min_hold?;
    let call = lock_and_line(&RETAIN, key).arg(Field(request.hold));
    let call = call.arg(request.hold.kept()).millis(min_hold);
    // Where it is repeated later: the successor may have come and gone.
    let alone = ReleaseRequest {
        successor: None,
        ..request
    };
    Some(call.arg(marks(request)).or(release(key, alone)))
}

fn marks(request: ReleaseRequest) -> &'static str {
    match (request.tombstone, request.nested) {
        (true, true) => "xd",
        (true, false) => "x",
        (false, true) => "d",
        (false, false) => "",
    }
}

/// Ends a hold, and moves the lock on.
pub(super) fn release(key: &LockKey, request: ReleaseRequest) -> Call {
    let script = match request.mode {
        Mode::Exclusive => &RELEASE,
        Mode::Shared => &UNSHARE,
    };
    let mut call = lock_and_line(script, key).arg(Field(request.hold));
    if !request.is_short() {
        call = call.arg(marks(request)).arg(request.inbox.as_bytes());
    }
    if let Some(successor) = request.successor {
        let pass = u8::from(successor.order == Order::QueueFirst);
        let preferred = u8::from(successor.entry.is_preferred);
        let [lease, life] = [successor.entry.grant, successor.entry.life].map(millis);
        call = call
            .arg(Field(successor.hold))
            .millis(successor.ttl)
            .arg(format!("{pass} {lease} {life} {preferred}"))
            .told(successor.entry);
    }
    call
}

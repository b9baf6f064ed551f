//! What is asked of a store, one verb in a file: its request, the keys and arguments of its script, how the reply is
//! read, and what the store in memory does. Beside it stands its script, `lua/NAME.lua`.
//!
//! Every verb is atomic in the store. A request may be executed although no answer comes, may be executed late, and may be
//! executed twice; each verb is written so that this changes nothing (P8). The exception is an acquire that was answered
//! and is executed once more after its hold has ended: it takes the lock for that hold, until the lease ends. TCP does not
//! repeat a request, nor does anything below this crate.

use redis::Value;
use tokio::time::Instant;

use super::{
    memory::State,
    redis::{Call, Script, Unexpected},
};

pub(crate) mod acquire;
pub(crate) mod depth;
pub(crate) mod downgrade;
pub(crate) mod inspect;
pub(crate) mod keep;
pub(crate) mod list;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod several;
pub(crate) mod share;
pub(crate) mod waits;

#[cfg(any(test, fuzzing))]
#[path = "../../tests/properties/reply.rs"]
pub(crate) mod properties;

/// A request that a store executes.
pub(crate) trait Verb: Clone + Send + Sync + 'static {
    type Reply: Send + 'static;

    /// The script that executes it in Redis.
    fn lua() -> &'static Script;

    /// The call of the script, with its keys and arguments.
    fn call(&self) -> Call;

    /// Reads the reply of the script.
    fn read(&self, reply: Value) -> Result<Self::Reply, Unexpected>;

    /// Does in memory what the script does.
    fn apply(self, state: &mut State, now: Instant) -> Self::Reply;
}

#[cfg(test)]
mod tests {
    use super::{
        acquire::Acquire,
        depth::SetDepth,
        downgrade::Downgrade,
        inspect::{ForceRelease, Inspect},
        keep::Keep,
        list::{Glance, Queue},
        release::{Release, Retain},
        renew::Renew,
        several::{AcquireAll, ReleaseAll, RenewAll},
        share::{Share, Unshare},
        waits::{ClaimVictim, HoldsIn, PublishWait, WaitsOf, WithdrawWait},
        *,
    };

    #[test]
    fn every_script_opens_with_its_keys_and_formats_numbers_alone() {
        let scripts = [
            Acquire::lua(),
            AcquireAll::lua(),
            ClaimVictim::lua(),
            Downgrade::lua(),
            ForceRelease::lua(),
            Glance::lua(),
            HoldsIn::lua(),
            Inspect::lua(),
            Keep::lua(),
            PublishWait::lua(),
            Queue::lua(),
            Release::lua(),
            ReleaseAll::lua(),
            Renew::lua(),
            RenewAll::lua(),
            Retain::lua(),
            SetDepth::lua(),
            Share::lua(),
            Unshare::lua(),
            WaitsOf::lua(),
            WithdrawWait::lua(),
        ];
        for script in scripts {
            let mut lines = script.source().lines();
            for opening in ["-- KEYS: ", "-- ARGV: ", "-- returns "] {
                let line = lines.next().unwrap_or_default();
                assert!(line.starts_with(opening), "{}.lua: {line}", script.verb());
            }
            // Lua cuts a short text at its first NUL there. Texts are joined.
            assert!(!script.source().contains("%s"), "{}.lua", script.verb());
        }
    }
}

//! All scripts, for what loads or checks each of them.

use super::{
    Verb, acquire, depth, downgrade, inspect, keep, list, release, renew, several, share, waits,
};
use crate::store::redis::Script;

/// Every script of a verb.
pub(crate) fn scripts() -> [&'static Script; 20] {
    [
        acquire::Acquire::lua(),
        depth::SetDepth::lua(),
        downgrade::Downgrade::lua(),
        inspect::ForceRelease::lua(),
        inspect::Inspect::lua(),
        keep::Keep::lua(),
        list::Glance::lua(),
        list::Queue::lua(),
        release::Release::lua(),
        release::Retain::lua(),
        renew::Renew::lua(),
        several::AcquireAll::lua(),
        several::ReleaseAll::lua(),
        share::Share::lua(),
        share::Unshare::lua(),
        waits::ClaimVictim::lua(),
        waits::HoldsIn::lua(),
        waits::PublishWait::lua(),
        waits::WaitsOf::lua(),
        waits::WithdrawWait::lua(),
    ]
}

#[cfg(test)]
mod tests {
    use super::scripts;

    #[test]
    fn every_script_opens_with_its_keys_and_formats_numbers_alone() {
        for script in scripts() {
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

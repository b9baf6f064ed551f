//! The `tracing` events of the crate, and the metrics that are counted with them. All events have the target `reentry`
//! and use common field names.
//!
//! The fields are `key` (as in the store), `hold` (as in the hash), `error`, `reason`, `token`, `inbox`, `server` and
//! `depth`. `waited`, `held` and `remaining` are durations. A holder that a caller waits for is described by `held_by`,
//! `owner`, `process`, `is_here` and `held`.

use std::time::Duration;

use tokio::time::Instant;
use tracing::field::{DebugValue, debug};
use tracing::{debug, warn};

use crate::base::error::{LockError, LostReason, StoreError};
use crate::base::id::{FencingToken, HoldId};
use crate::base::key::LockKey;
use crate::base::metrics::{self, HandoffPath};
use crate::base::process::Holder;
use crate::base::sync::Mutex;

const TARGET: &str = "reentry";

/// Returns the text of an error and of its cause.
fn chain(error: &StoreError) -> String {
    use std::error::Error;
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

pub(crate) fn acquired(
    key: &LockKey,
    hold: HoldId,
    token: FencingToken,
    via: HandoffPath,
    since: Instant,
) {
    metrics::hold_began(key.class(), via);
    let waited = || since.elapsed();
    debug!(target: TARGET, key = key.as_str(), %hold, token = token.0, waited = ?waited(), "acquired");
}

pub(crate) fn reentered(key: &LockKey, hold: HoldId, depth: impl Fn() -> u32) {
    metrics::count(&metrics::REENTRIES, Some(key.class()), &[]);
    debug!(target: TARGET, key = key.as_str(), %hold, depth = depth(), "reentered");
}

/// Emits an event about a waiting caller, with the holder that it waits for, if that is known.
macro_rules! in_the_way {
    ($level:ident, $name:literal, $key:expr, $hold:expr, $waited:expr, $holder:expr) => {{
        let (hold, waited, holder): (HoldId, Duration, Option<&Holder>) = ($hold, $waited, $holder);
        $level!(
            target: TARGET,
            key = $key.as_str(),
            %hold,
            ?waited,
            held_by = holder.map(|holder| &*holder.hold_id),
            owner = holder.and_then(|holder| holder.owner.as_deref()),
            process = holder.and_then(|holder| holder.process.as_ref()).map(display),
            is_here = holder.map(|holder| holder.is_here),
            held = holder.and_then(|holder| holder.held_for).map(debug),
            $name
        );
    }};
}

pub(crate) fn waiting(key: &LockKey, hold: HoldId, waited: Duration, holder: Option<&Holder>) {
    in_the_way!(warn, "waiting", key, hold, waited, holder);
}

pub(crate) fn timed_out(key: &LockKey, hold: HoldId, waited: Duration, holder: Option<&Holder>) {
    in_the_way!(debug, "timed_out", key, hold, waited, holder);
}

/// Reports that an acquisition ends because the store failed, or did not respond.
pub(crate) fn unavailable(keys: &str, waited: Duration, source: &StoreError) {
    debug!(target: TARGET, key = keys, ?waited, error = chain(source), "unavailable");
}

/// Reports that an acquisition ends because of a mistake in the program or in a setting.
pub(crate) fn misused(keys: &str, waited: Duration, error: &LockError) {
    let error = match error.store_error() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    };
    debug!(target: TARGET, key = keys, ?waited, error, "misused");
}

/// Emits an event for a failure that affects many callers while the store is unavailable. Only some of these events are
/// warnings. Each warning has the number of events that were left out since the last warning.
macro_rules! now_and_then {
    ($warnings:expr, $($event:tt)*) => {
        match $warnings.admit(Instant::now()) {
            Some(left_out) => {
                warn!(target: TARGET, left_out, $($event)*);
            }
            None => {
                debug!(target: TARGET, $($event)*);
            }
        }
    };
}

pub(crate) fn acquire_retried(key: &LockKey, error: &StoreError, warnings: &WarnLimiter) {
    now_and_then!(
        warnings,
        key = key.as_str(),
        error = chain(error),
        "acquire_retried"
    );
}

/// Reports that a subscription failed. Until one succeeds, waiters must poll.
pub(crate) fn subscribe_retried(inbox: &str, error: &StoreError, warnings: &WarnLimiter) {
    metrics::count(&metrics::SUBSCRIBE_FAILURES, None, &[]);
    now_and_then!(warnings, inbox, error = chain(error), "subscribe_retried");
}

/// Reports that the provider of credentials has failed. Existing connections stay as they are.
#[cfg(feature = "credentials")]
pub(crate) fn credentials_failed(error: &impl std::fmt::Display, warnings: &WarnLimiter) {
    now_and_then!(warnings, %error, "credentials_failed");
}

pub(crate) fn acquire_undone(key: &LockKey, hold: HoldId) {
    debug!(target: TARGET, key = key.as_str(), %hold, "acquire_undone");
}

pub(crate) fn depth_retried(key: &LockKey, hold: HoldId, error: &StoreError) {
    warn!(target: TARGET, key = key.as_str(), %hold, error = chain(error), "depth_retried");
}

/// Reports that the depth in the store stays wrong until the next change.
pub(crate) fn depth_rejected(key: &LockKey, hold: HoldId, error: &StoreError) {
    warn!(target: TARGET, key = key.as_str(), %hold, error = chain(error), "depth_rejected");
}

fn count_renewal(key: &LockKey, answer: &'static str) {
    metrics::count(&metrics::RENEWALS, Some(key.class()), &[("answer", answer)]);
}

/// Reports a renewal. The lease is certain to last until `until`.
pub(crate) fn renewed(key: &LockKey, hold: HoldId, until: Instant) {
    count_renewal(key, "renewed");
    let remaining = || until.saturating_duration_since(Instant::now());
    debug!(target: TARGET, key = key.as_str(), %hold, remaining = ?remaining(), "renewed");
}

/// Counts a renewal that the store rejected because it no longer knows the hold.
pub(crate) fn renewal_rejected(key: &LockKey) {
    count_renewal(key, "gone");
}

/// Counts an attempt that has failed or is late. A late attempt is counted again when it fails.
pub(crate) fn renewal_unanswered(key: &LockKey) {
    count_renewal(key, "unknown");
}

pub(crate) fn renewal_retried(
    key: &LockKey,
    hold: HoldId,
    error: Option<&StoreError>,
    warnings: &WarnLimiter,
) {
    // Formatted only if a subscriber wants the event.
    let error = || error.map_or_else(|| "no response in time".to_owned(), chain);
    now_and_then!(warnings, key = key.as_str(), %hold, error = error(), "renewal_retried");
}

pub(crate) fn lost(key: &LockKey, hold: HoldId, reason: LostReason, since: Option<Instant>) {
    let reason_label = [("reason", reason.kind())];
    metrics::count(&metrics::LOSSES, Some(key.class()), &reason_label);
    warn!(target: TARGET, key = key.as_str(), %hold, %reason, held = time_since(since), "lost");
}

pub(crate) fn released(key: &LockKey, hold: HoldId, since: Option<Instant>) {
    debug!(target: TARGET, key = key.as_str(), %hold, held = time_since(since), "released");
}

fn time_since(since: Option<Instant>) -> Option<DebugValue<Duration>> {
    since.map(|since| debug(since.elapsed()))
}

/// Reports that the next waiter of this process has the lock, in memory.
pub(crate) fn handed_off(key: &LockKey, hold: HoldId) {
    debug!(target: TARGET, key = key.as_str(), %hold, "handed_off");
}

pub(crate) fn release_backgrounded(key: &LockKey, hold: HoldId) {
    warn!(target: TARGET, key = key.as_str(), %hold, "release_backgrounded");
}

pub(crate) fn release_retried(
    key: &LockKey,
    hold: HoldId,
    error: &StoreError,
    warnings: &WarnLimiter,
) {
    now_and_then!(warnings, key = key.as_str(), %hold, error = chain(error), "release_retried");
}

/// Reports that the release is not tried again. The lease expires by itself.
pub(crate) fn release_abandoned(key: &LockKey, hold: HoldId, error: &StoreError) {
    warn!(target: TARGET, key = key.as_str(), %hold, error = chain(error), "release_abandoned");
}

/// Reports that the acquisition was chosen to break a deadlock. The error names the cycle.
pub(crate) fn deadlock(key: &LockKey, hold: HoldId, error: &LockError) {
    warn!(target: TARGET, key = key.as_str(), %hold, %error, "deadlock");
}

/// Reports that the deadlock search failed. The acquisition continues. If it is part of a deadlock, the deadlock is not
/// found until the store responds again. It is never found if the store rejects the search.
pub(crate) fn deadlock_search_failed(key: &LockKey, hold: HoldId, error: &StoreError) {
    warn!(target: TARGET, key = key.as_str(), %hold, error = chain(error), "deadlock_search_failed");
}

/// Reports that a closed `Locks` is waiting for the locks of the `held` keys, and for `in_flight` requests. The keys
/// have no prefix.
pub(crate) fn closing(waited: Duration, held: &[String], in_flight: usize) {
    // No more keys than a reader can take in.
    let keys = || held.get(..10).unwrap_or(held).join(", ");
    warn!(target: TARGET, ?waited, held = held.len(), keys = keys(), in_flight, "closing");
}

pub(crate) fn closed(held: usize, in_flight: usize) {
    debug!(target: TARGET, held, in_flight, "closed");
}

pub(crate) fn connected(server: &str, purpose: &'static str) {
    metrics::count(&metrics::CONNECTIONS, None, &[("purpose", purpose)]);
    debug!(target: TARGET, server, "connected");
}

/// Reports that a connection was lost or given up. The locks that may be affected are verified.
pub(crate) fn disconnected(server: &str) {
    metrics::count(&metrics::DISCONNECTS, None, &[]);
    debug!(target: TARGET, server, "disconnected");
}

/// The longest time between two failures that belong together.
const STREAK_GAP: Duration = Duration::from_secs(10);

/// The shortest time between two warnings.
const MIN_WARN_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time between two warnings.
const MAX_WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Admits a warning immediately. While the failure continues, it admits further warnings at intervals that double from
/// one second to one minute.
#[derive(Debug, Default)]
pub(crate) struct WarnLimiter(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    streak: Option<Streak>,
    /// The number of failures since the latest warning.
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    began: Instant,
    latest: Instant,
    warned_next: Instant,
}

impl WarnLimiter {
    /// Admits a warning of a failure at `now`, or returns `None`. Returns the number of failures that were left out
    /// before an admitted warning.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        // A failure after a quiet time begins a new streak, and is warned of immediately.
        let present = state.streak.filter(|it| now < it.latest + STREAK_GAP);
        let began = present.map_or(now, |it| it.began);
        let is_warned = present.is_none_or(|it| it.warned_next <= now);
        // The next interval is as long as the streak so far. So it doubles with each warning.
        let warned_next = match present {
            Some(it) if !is_warned => it.warned_next,
            _ => now + (now - began).clamp(MIN_WARN_INTERVAL, MAX_WARN_INTERVAL),
        };
        // The streak also continues with failures that are left out. Otherwise it would end between two warnings.
        state.streak = Some(Streak {
            began,
            latest: now,
            warned_next,
        });
        if is_warned {
            return Some(std::mem::take(&mut state.left_out));
        }
        state.left_out += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_failure_is_logged_less_and_less_often() {
        let (limiter, begin) = (WarnLimiter::default(), Instant::now());
        let millis = (0..1_000_u64).map(|at| 200 * at);
        let at = |at: u64| begin + Duration::from_millis(at);
        let said = millis.filter_map(|millis| Some((millis, limiter.admit(at(millis))?)));
        let (said, left_out): (Vec<_>, Vec<_>) = said.unzip();
        assert_eq!(
            said,
            [
                0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 124_000, 184_000
            ]
        );
        assert_eq!(left_out, [0, 4, 4, 9, 19, 39, 79, 159, 299, 299]);
    }

    #[test]
    fn a_failure_after_a_quiet_time_is_logged_immediately() {
        let (limiter, begin) = (WarnLimiter::default(), Instant::now());
        assert_eq!(limiter.admit(begin), Some(0));
        assert_eq!(limiter.admit(begin + MIN_WARN_INTERVAL / 2), None);
        assert_eq!(
            limiter.admit(begin + MIN_WARN_INTERVAL / 2 + STREAK_GAP),
            Some(1)
        );
    }
}

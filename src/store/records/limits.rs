//! What the scripts and the memory store agree on.

use std::time::Duration;

/// The orders of the places begin behind this one; those of the preferred places behind 0.
pub(crate) const PLACES_FROM: u64 = 1 << 40;

/// The scores of the tombstones begin here. No place has so great an order.
pub(crate) const TOMBSTONES_FROM: u64 = 1 << 52;

/// From here on neither Lua nor JSON represents every integer exactly. No clock gives such a token before the year 2255.
pub(crate) const INEXACT_FROM: u64 = 1 << 53;

/// How long an ended hold is remembered, and so how late a request may still arrive.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(600);

/// How long a depth change is remembered after the last one of its lock, at most; half of it at least.
pub(crate) const SEQ_LIFE: Duration = TOMBSTONE_LIFE.saturating_mul(2);

/// The limits by the names that stand for them in the scripts. A life is in ms.
pub(crate) fn in_scripts() -> [(&'static str, u128); 5] {
    [
        ("PLACES_FROM", PLACES_FROM.into()),
        ("TOMBSTONES_FROM", TOMBSTONES_FROM.into()),
        ("INEXACT_FROM", INEXACT_FROM.into()),
        ("TOMBSTONE_LIFE", TOMBSTONE_LIFE.as_millis()),
        ("SEQ_LIFE", SEQ_LIFE.as_millis()),
    ]
}

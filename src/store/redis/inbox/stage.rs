//! How far a subscription is, as its task tells the waiters.

/// ```text
/// Opening ──▶ Open ◀──▶ Broken      and Ended after each of them
///    └────────────────────▲
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being made for the first time. The waiters ask once more when it is open.
    Opening,
    Open,
    /// It has died, or could not be made, and is being made anew.
    Broken,
    /// No task keeps it any more.
    Ended,
}

//! What a check has found.

/// Whether all is as a release needs it.
pub(super) enum Found {
    /// What was seen.
    Ready(String),
    /// What must be done before a release.
    Missing(String),
}

//! The result of a check.

/// Whether the state is ready for a release.
pub(super) enum Found {
    /// The state that was found.
    Ready(String),
    /// What must be done before a release.
    Missing(String),
}

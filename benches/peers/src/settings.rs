//! The settings of a contestant.

/// Whether a crate runs with its defaults or with its best settings: 10 ms between two attempts, no limit of attempts,
/// and a TTL of 30 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settings {
    Defaults,
    Tuned,
}

//! What a contestant runs with.

/// Whether a crate runs with its defaults or with the best settings that it has: 10 ms between
/// two attempts, no limit of attempts, a TTL of 30 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settings {
    Defaults,
    Tuned,
}

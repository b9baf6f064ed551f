//! What `reentry run` and `reentry hold` say about their locks, in the description of their process. A lock itself does
//! not say it.

use std::fmt;

use reentry::__admin;
use reentry::admin::Process;

/// What such a process says. For people: no lock depends on it, and it may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// Its lock is one of so many permits.
    Permits(u64),
    /// Its command has ended, and its locks are kept for this time in ms from their acquisition on.
    Kept(u64),
}

impl Note {
    pub(crate) fn of(process: &Process) -> Option<Self> {
        Self::parse(__admin::note(process))
    }

    fn parse(note: &str) -> Option<Self> {
        let (word, number) = note.split_once(' ')?;
        let number = number.parse().ok()?;
        match word {
            "permits" => Some(Self::Permits(number)),
            "min_hold" => Some(Self::Kept(number)),
            _ => None,
        }
    }

    /// Makes it the note of this process, which is sent with the next description.
    #[cfg(unix)]
    pub(crate) fn set(self) {
        __admin::set_note(&self.to_string());
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permits(permits) => write!(f, "permits {permits}"),
            Self::Kept(min_hold) => write!(f, "min_hold {min_hold}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for note in [Note::Permits(3), Note::Kept(3_600_000)] {
            assert_eq!(Note::parse(&note.to_string()), Some(note));
        }
        for note in ["", "permits", "permits many", "min_hold -1", "other 3"] {
            assert_eq!(Note::parse(note), None, "{note}");
        }
    }
}

//! The checks of what must not have happened.
//!
//! Only the knowledge of a worker at a certain time counts against the library. A section counts as inside from the
//! record of its entry to the last time at which its lease was seen to be valid. It also counts for as long as that
//! lease had to last from there, unless the worker was notified of a loss. A fault that takes a lock out of the server
//! excuses its consequences, on its key and for as long as a lease may last. Nothing else is excused.

use self::verdict::Verdict;
use crate::history::History;

mod ends;
mod exclusion;
mod returns;
pub(crate) mod stalls;
#[cfg(test)]
mod tests;
mod told;
pub(crate) mod verdict;

pub(crate) fn all(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    exclusion::check(history, &mut verdict);
    told::check(history, &mut verdict);
    returns::check(history, &mut verdict);
    ends::check(history, &mut verdict);
    stalls::check(history, &mut verdict);
    verdict
}

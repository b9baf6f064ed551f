//! What must not have happened.
//!
//! Only what a worker knew at a certain time is held against the library: a section counts as inside
//! from the record of its entry to the last time at which its lease was seen to be valid, and from there
//! for as long as that lease was to last, unless it was told of a loss. A fault that takes a lock out of
//! the server excuses what follows from that, on its key and for as long as a lease may last, and
//! nothing else does.

use self::verdict::Verdict;
use crate::history::History;

mod ends;
mod exclusion;
mod register;
mod returns;
pub(crate) mod stalls;
#[cfg(test)]
mod tests;
mod told;
pub(crate) mod verdict;
mod writes;

pub(crate) fn all(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    exclusion::check(history, &mut verdict);
    writes::check(history, &mut verdict);
    register::check(history, &mut verdict);
    told::check(history, &mut verdict);
    returns::check(history, &mut verdict);
    ends::check(history, &mut verdict);
    stalls::check(history, &mut verdict);
    verdict
}

//! Whether the packaging has changed since the state that landed last, if git knows that state.

use crate::run::git;
use std::env;

/// The files that define the packages, their dependencies, the code that no other check compiles, and the checks.
const PACKAGING: [&str; 5] = [
    "*Cargo.toml",
    "*Cargo.lock",
    "benches/peers/*.rs",
    "fuzz/*.rs",
    "xtask/src/release*",
];

/// The branches on which changes land, with the remote branch first.
const BRANCHES: [&str; 2] = ["origin/main", "main"];

/// Whether the packaging has changed, or may have. Uncommitted changes count as well.
pub(crate) fn changed() -> bool {
    let named = env::var("REENTRY_LANDED").ok();
    let Some(landed) = named.or_else(|| landed(git)) else {
        return true;
    };
    let diff = [&["diff", "--quiet", &landed, "--"][..], &PACKAGING].concat();
    git(&diff).is_none()
}

/// The commit of the main branch on which the current branch is based. On the main branch itself, it is the parent.
/// `None` if a part of the history is missing.
fn landed(git: impl Fn(&[&str]) -> Option<String>) -> Option<String> {
    if git(&["rev-parse", "--is-shallow-repository"])? != "false" {
        return None;
    }
    let head = git(&["rev-parse", "HEAD"])?;
    let bases = BRANCHES.map(|branch| git(&["merge-base", "HEAD", branch]));
    let base = bases.into_iter().flatten().find(|base| *base != head);
    base.or_else(|| git(&["rev-parse", "--verify", "HEAD^"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A git that has these answers, and fails for everything else.
    fn landed_by(answers: &[(&str, &str)]) -> Option<String> {
        landed(|words| {
            let words = words.join(" ");
            let answer = answers.iter().find(|(asked, _)| *asked == words)?;
            Some(answer.1.to_owned())
        })
    }

    const COMPLETE: (&str, &str) = ("rev-parse --is-shallow-repository", "false");
    const HEAD: (&str, &str) = ("rev-parse HEAD", "c");
    const PARENT: (&str, &str) = ("rev-parse --verify HEAD^", "b");

    #[test]
    fn a_branch_is_compared_with_where_it_began() {
        let began = ("merge-base HEAD main", "a");
        let landed = landed_by(&[COMPLETE, HEAD, PARENT, began]);
        assert_eq!(landed.as_deref(), Some("a"));
        // A commit that was not pushed has not landed.
        let pushed = ("merge-base HEAD origin/main", "a");
        let local = ("merge-base HEAD main", "c");
        let landed = landed_by(&[COMPLETE, HEAD, PARENT, pushed, local]);
        assert_eq!(landed.as_deref(), Some("a"));
    }

    #[test]
    fn a_commit_that_landed_is_compared_with_its_parent() {
        let local = ("merge-base HEAD main", "c");
        let landed = landed_by(&[COMPLETE, HEAD, PARENT, local]);
        assert_eq!(landed.as_deref(), Some("b"));
    }

    #[test]
    fn nothing_is_known_of_a_history_with_gaps() {
        let shallow = ("rev-parse --is-shallow-repository", "true");
        assert_eq!(landed_by(&[shallow, HEAD, PARENT]), None);
        assert_eq!(landed_by(&[COMPLETE, HEAD]), None);
        assert_eq!(landed_by(&[]), None);
    }
}

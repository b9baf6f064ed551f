//! `reentry completions`.

use crate::program::ended;

#[test]
fn every_shell_gets_completions_that_name_the_program() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = ended(&["completions", shell]);
        assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{shell}");
        assert!(ended.out.contains("reentry"), "{shell}: {}", ended.out);
        // It is internal.
        assert!(!ended.out.contains("guard"), "{shell}");
    }
}

#[test]
fn a_shell_that_is_unknown_is_a_wrong_argument() {
    let ended = ended(&["completions", "dosshell"]);
    assert_eq!(ended.code, Some(125));
    assert!(ended.err.contains("dosshell"), "{}", ended.err);
}

//! `reentry completions`.

use std::process::Command;

use crate::program::{ended, ended_of};

#[test]
fn every_shell_gets_completions_that_name_the_program() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = ended(&["completions", shell]);
        assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{shell}");
        assert!(ended.out.contains("reentry"), "{shell}: {}", ended.out);
        assert!(ended.out.contains("connect-timeout"), "{shell}");
        // It is internal.
        assert!(!ended.out.contains("guard"), "{shell}");
    }
}

/// The reader of a pipe may leave early.
#[test]
fn completions_without_a_reader_are_no_error() {
    for words in ["completions bash", "help run", "run --help", "man", ""] {
        let line = format!("{{ \"$0\" {words}; echo $? >&2; }} | (exec <&-; sleep 0.1)");
        let ended = ended_of(Command::new("sh").args(["-c", &line, env!("CARGO_BIN_EXE_reentry")]));
        assert_eq!((ended.code, &*ended.err), (Some(0), "0\n"), "{words}");
    }
}

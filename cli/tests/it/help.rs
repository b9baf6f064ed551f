//! The help, and the hints in errors of usage.

use crate::program::{Ended, ended, ended_of, reentry};

const VERBS: &str = "run hold ls show release watch doctor bench fence completions man help";

/// An option of connections.
const OPTION: &str = "--connect-timeout";

/// The program on a screen of 80 columns.
fn on_screen(words: &[&str]) -> Ended {
    let ended = ended_of(reentry(words).env("COLUMNS", "80"));
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{words:?}");
    ended
}

#[test]
fn without_arguments_the_program_shows_its_commands() {
    let shown = on_screen(&[]).out;
    for same in [&["--help"][..], &["-h"], &["help"]] {
        assert_eq!(on_screen(same).out, shown, "{same:?}");
    }
    for verb in VERBS.split(' ') {
        assert!(shown.contains(&format!("\n  {verb} ")), "{verb}: {shown}");
    }
    assert!(shown.lines().count() <= 25, "{shown}");
}

#[test]
fn the_help_of_a_command_fits_on_a_screen_and_its_page_says_all() {
    for verb in VERBS.split(' ') {
        let help = on_screen(&[verb, "--help"]).out;
        assert_eq!(on_screen(&[verb, "-h"]).out, help);
        assert!(help.lines().count() <= 25, "{help}");
        assert!(help.lines().all(|line| line.len() <= 80), "{help}");
        assert!(!help.contains(OPTION), "{help}");
        let last = help.lines().last().unwrap();
        assert!(last.contains("`reentry help connection`"), "{help}");
        let page = on_screen(&["help", verb]).out;
        assert!(page.len() > help.len(), "{page}");
        assert!(!page.contains(OPTION), "{page}");
    }
    let run = on_screen(&["help", "run"]).out;
    assert!(
        run.contains("--grace") && run.contains("Exit codes"),
        "{run}"
    );
    let connection = on_screen(&["help", "connection"]).out;
    for part in [OPTION, "--url", "REENTRY_PASSWORD_FILE", "--prefix"] {
        assert!(connection.contains(part), "{part}: {connection}");
    }
}

#[test]
fn subcommands_of_other_programs_lead_to_the_right_one() {
    for (word, hints) in [
        (
            "lock",
            &["reentry run KEY -- COMMAND", "reentry hold KEY"][..],
        ),
        ("unlock", &["reentry release KEY"]),
        ("status", &["reentry ls", "reentry show KEY"]),
    ] {
        for words in [&[word, "a"][..], &["--json", word, "a"]] {
            let refused = ended(words);
            assert_eq!((refused.code, &*refused.out), (Some(125), ""));
            for hint in hints {
                assert!(refused.err.contains(hint), "{word}: {}", refused.err);
            }
        }
        assert_eq!(ended(&["help", word]).code, Some(125));
    }
}

#[test]
fn an_option_that_does_not_exist_is_not_suggested() {
    for words in [&["run", "--quit"][..], &["show", "--quit"], &["--quit"]] {
        let refused = ended(words);
        assert_eq!(refused.code, Some(125));
        assert_eq!(refused.err.matches("--quit'").count(), 1, "{}", refused.err);
    }
    let near = ended(&["run", "--quit", "a", "true"]).err;
    assert!(near.contains("'--quiet'"), "{near}");
}

/// Wherever the address is given, and whatever is wrong.
#[test]
fn no_output_has_a_secret_of_an_address() {
    let own = |url: &str| {
        let words = [
            &["ls"][..],
            &["show", "a"],
            &["run", "-n", "a", "--", "true"],
            &["hold", "-n", "a"],
            &["release", "a", "--yes"],
            &["doctor"],
            &["--json", "show", "a"],
            &["--json", "doctor"],
        ];
        words.map(|words| {
            let mut command = reentry(words);
            command.env("REDIS_URL", url);
            command
        })
    };
    let given = |url: &str| {
        let words = [
            &["ls", "--url", url][..],
            &["--json", "ls", "--url", url],
            &["show", "a", url],
            &["--json", "show", "a", url],
            &[url],
            &["run", url],
            &["run", "-k", "a", "--", url],
            &["ls", "--limit", url],
            &["--json", "ls", "--limit", url],
            &["help", url],
            &[&format!("--{url}"), "ls"],
        ];
        words.map(reentry)
    };
    for url in [
        "redis://:hunter2@127.0.0.1:1",
        "redis://me:hunter2@127.0.0.1:port",
        "redis://:hunter2/x@127.0.0.1:1",
        "redis://:hun=hunter2@nowhere.invalid:1",
        "rediss://:hunter2@127.0.0.1:1",
        "unix:///nowhere?user=me&pass=hunter2",
        "redis+sentinel://:hunter2@127.0.0.1:1/primary",
        "redis+cluster://me:hunter2@127.0.0.1:1",
        "http://me:hunter2@127.0.0.1:1",
    ] {
        let commands = own(url).into_iter().chain(given(url));
        for mut command in commands {
            let ended = ended_of(command.env("REENTRY_CONNECT_TIMEOUT", "3s"));
            assert!(!ended.err.contains("hunter2"), "{command:?}: {}", ended.err);
            assert!(!ended.out.contains("hunter2"), "{command:?}: {}", ended.out);
            assert_ne!(ended.code, Some(0), "{command:?}");
        }
    }
}

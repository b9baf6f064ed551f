//! Runs that exclude each other, and runs that share a lock.

use crate::program::{Running, ended_of, locks_at, reentry_at, script_at};
use crate::support::server::RedisServer;

/// Prints that it is inside, and stays until its input ends.
const STAY: &str = "echo inside; read line";

fn leave(run: &mut Running) {
    drop(run.input.take());
}

#[tokio::test]
async fn a_lock_that_is_held_is_not_acquired() {
    let server = RedisServer::start().await;
    let mut holder = Running::start(&mut script_at(&server, &["-k", "a"], STAY));
    holder.says("inside").await;
    // Three seconds: without a response from the server, the error would be another one.
    for options in [&["-n"][..], &["--nonblock"], &["--timeout", "3s"]] {
        let key = ["-k", "a"];
        let ended = ended_of(&mut script_at(
            &server,
            &[&key, options].concat(),
            "echo no",
        ));
        assert_eq!((ended.code, &*ended.out), (Some(124), ""), "{options:?}");
        assert!(ended.err.contains("`a`"), "{}", ended.err);
        let chosen = [&key, options, &["-E", "9"]].concat();
        let ended = ended_of(&mut script_at(&server, &chosen, "echo no"));
        assert_eq!(ended.code, Some(9), "{options:?}");
    }
    let ended = ended_of(&mut script_at(&server, &["-k", "b", "-n"], "echo yes"));
    assert_eq!(ended.out, "yes\n");
    leave(&mut holder);
    // `read` has reached the end of its input.
    assert_eq!(holder.code().await, Some(1));
}

/// cron(8) sends a mail for each line that a job prints.
#[tokio::test]
async fn a_quiet_run_says_nothing_of_a_lock_that_is_held() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let guard = locks.lock("a").await.unwrap();
    for (options, code) in [
        (&["-q"][..], 124),
        (&["--quiet", "--json"], 124),
        (&["-q", "-E", "0"], 0),
    ] {
        let words = [&["-k", "a", "-n"], options].concat();
        let ended = ended_of(&mut script_at(&server, &words, "echo no"));
        assert_eq!((ended.code, &*ended.out, &*ended.err), (Some(code), "", ""));
    }
    guard.release().await.unwrap();
    // Other errors are printed.
    let wrong = reentry_at(&server, &["run", "-q", "-k", "a", "--", "/nowhere/at-all"]);
    assert!(ended_of(&mut { wrong }).err.contains("/nowhere/at-all"));
}

#[tokio::test]
async fn a_lock_is_kept_for_its_least_time() {
    let server = RedisServer::start().await;
    let options = ["-k", "job", "-n", "--min-hold", "1h", "--ttl", "1h"];
    assert_eq!(
        ended_of(&mut script_at(&server, &options, "true")).code,
        Some(0)
    );
    let refused = ended_of(&mut script_at(&server, &options, "true"));
    assert_eq!(refused.code, Some(124));
    // Until when, why, and by whom.
    let said = refused.err;
    assert!(said.starts_with("error: `job` is kept until 2"), "{said}");
    assert!(said.contains("Z by `--min-hold 1h`: sh, pid "), "{said}");
    let shown = ended_of(&mut reentry_at(&server, &["show", "job"])).out;
    assert!(shown.starts_with("job is kept until 2"), "{shown}");
    let words = "Z by `--min-hold 1h`: its command has ended\n";
    assert!(shown.contains(words), "{shown}");
    let listed = ended_of(&mut reentry_at(&server, &["ls"])).out;
    assert!(listed.contains("job  kept "), "{listed}");
}

/// The command may exist on another machine.
#[tokio::test]
async fn a_lock_is_not_kept_for_a_command_that_did_not_run() {
    let server = RedisServer::start().await;
    for keys in [&["-k", "a"][..], &["-k", "b", "-k", "c"]] {
        let options = [keys, &["-n", "--min-hold", "1h"]].concat();
        for (command, code) in [("/nowhere/at-all", 127), ("/", 126)] {
            let words = [&["run"], &*options, &["--", command]].concat();
            let ended = ended_of(&mut reentry_at(&server, &words));
            assert_eq!(ended.code, Some(code), "{}", ended.err);
            assert!(ended.err.contains(command), "{}", ended.err);
        }
        assert_eq!(server.leftovers().await, [""; 0]);
    }
}

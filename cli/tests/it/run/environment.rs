//! The environment of the command, and nested runs.

use crate::program::{Running, ended_of, locks_at, script_at};
use crate::support::server::RedisServer;

const TELL: &str = r#"echo "$REENTRY_KEY"; echo "$REENTRY_TOKEN"; echo "$REENTRY_HOLD""#;

#[tokio::test]
async fn the_command_knows_its_key_its_token_and_its_hold() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let script = format!("{TELL}; read line");
    let options = ["--prefix", "app:", "-k", "order 1"];
    let mut run = Running::start(&mut script_at(&server, &options, &script));
    assert_eq!(run.line().await, "order 1");
    let (token, hold) = (run.line().await, run.line().await);
    let info = locks.admin().inspect("app:order 1").await.unwrap().unwrap();
    assert_eq!(info.token.unwrap().to_string(), token);
    assert_eq!(info.holders[0].hold_id, hold);
    drop(run.input.take());
    run.end().await;
    let later = ended_of(&mut script_at(
        &server,
        &options,
        r#"echo "$REENTRY_TOKEN""#,
    ));
    let [earlier, later] = [&*token, later.out.trim()].map(|token| token.parse::<u64>().unwrap());
    assert!(earlier < later, "{earlier} {later}");
}

#[tokio::test]
async fn a_verbose_run_says_what_it_waits_for_and_has() {
    let server = RedisServer::start().await;
    let script = r#"echo "$REENTRY_TOKEN""#;
    let ended = ended_of(&mut script_at(&server, &["-v", "-k", "a"], script));
    let token = ended.out.trim();
    let expected = format!("reentry: waiting for `a`\nreentry: acquired `a`, token {token}\n");
    assert_eq!(ended.err, expected);
}

/// It would wait for the enclosing run, which waits for it.
#[tokio::test]
async fn a_run_inside_of_one_for_the_same_key_fails_at_once() {
    let server = RedisServer::start().await;
    let inner = format!("{} run -k a -- echo inner", env!("CARGO_BIN_EXE_reentry"));
    let ended = ended_of(&mut script_at(&server, &["-k", "a"], &inner));
    assert_eq!((ended.code, &*ended.out), (Some(125), ""));
    assert!(
        ended
            .err
            .contains("`a` is held by the enclosing `reentry run`"),
        "{}",
        ended.err
    );
    // Another prefix is another lock, and so is another key, also two levels down.
    for inner in [
        format!(
            "{} run --prefix x: -k a -- echo inner",
            env!("CARGO_BIN_EXE_reentry")
        ),
        format!(
            "{0} run -k b -- {0} run -k c -- echo inner",
            env!("CARGO_BIN_EXE_reentry")
        ),
    ] {
        let ended = ended_of(&mut script_at(&server, &["-k", "a"], &inner));
        assert_eq!(
            (ended.code, &*ended.out),
            (Some(0), "inner\n"),
            "{}",
            ended.err
        );
    }
    let inner = format!(
        "{0} run -k b -- {0} run -k a -- echo inner",
        env!("CARGO_BIN_EXE_reentry")
    );
    let ended = ended_of(&mut script_at(&server, &["-k", "a"], &inner));
    assert_eq!(ended.code, Some(125), "{}", ended.err);
}

/// A script that acquires its own lock works alone, and inside a run that holds this lock.
#[tokio::test]
async fn a_lock_of_an_outer_run_is_entered_once_more() {
    let server = RedisServer::start().await;
    let program = env!("CARGO_BIN_EXE_reentry");
    // Two levels down, together with another key, and alone.
    for (outer, keys, lines) in [
        ("-k a", "-k a", 1),
        ("-k a", "-k a -k c", 2),
        ("-k o", "-k a", 1),
    ] {
        let inner = format!("{program} run --reenter {keys} sh -c '{TELL}; exit 3'");
        let script = format!("echo \"$REENTRY_KEY $REENTRY_TOKEN\"; {program} run -k b -- {inner}");
        let options: Vec<_> = outer.split(' ').collect();
        let ended = ended_of(&mut script_at(&server, &options, &script));
        assert_eq!((ended.code, &*ended.err), (Some(3), ""), "{ended:?}");
        let told: Vec<_> = ended.out.lines().collect();
        assert_eq!(told.len(), 2 + 2 * lines, "{told:?}");
        let of_inner = told[1..=lines].iter().zip(&told[1 + lines..]);
        let of_inner: Vec<_> = of_inner
            .map(|(key, token)| format!("{key} {token}"))
            .collect();
        // A lock that is held already has the token of the outer run.
        assert_eq!(
            of_inner.contains(&told[0].to_owned()),
            outer == "-k a",
            "{told:?}"
        );
    }
    assert_eq!(server.leftovers().await, [""; 0]);
}

#[tokio::test]
async fn a_shared_lock_is_entered_once_more_as_a_shared_one() {
    let server = RedisServer::start().await;
    let program = env!("CARGO_BIN_EXE_reentry");
    for (outer, inner, code) in [("-s", "", 125), ("-s", "-s", 0), ("-v", "-s", 0)] {
        let script = format!("{program} run --reenter {inner} -k a -- echo inner");
        let ended = ended_of(&mut script_at(&server, &[outer, "-k", "a"], &script));
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
}

/// The outer run holds the lock, and terminates everything inside when it is lost.
#[tokio::test]
async fn a_run_that_re_entered_a_lock_ends_when_it_is_lost() {
    let server = RedisServer::start().await;
    let locks = locks_at(&server).await;
    let program = env!("CARGO_BIN_EXE_reentry");
    let script = format!("{program} run --reenter -k a -- sh -c 'echo up; sleep 1000; true'");
    let mut run = Running::start(&mut script_at(&server, &["-k", "a"], &script));
    run.says("up").await;
    assert!(locks.admin().force_release("a").await.unwrap());
    assert_eq!(run.code().await, Some(123));
    assert_eq!(run.rest().await, [""; 0]);
}

/// Each run holds the lock that the other one wants, and does not release it before its command has ended.
#[tokio::test]
async fn a_deadlock_among_nested_runs_has_one_victim() {
    let server = RedisServer::start().await;
    let nest = |outer: &str, inner: &str| {
        let program = env!("CARGO_BIN_EXE_reentry");
        let script = format!("echo up; read line; {program} run -k {inner} -- echo inner");
        Running::start(&mut script_at(&server, &["-k", outer], &script))
    };
    let mut runs = [nest("a", "b"), nest("b", "a")];
    for run in &mut runs {
        run.says("up").await;
    }
    for run in &mut runs {
        drop(run.input.take());
    }
    let mut ends = Vec::new();
    for run in &mut runs {
        ends.push((run.code().await, run.rest().await));
    }
    ends.sort();
    let inner = vec!["inner".to_owned()];
    assert_eq!(ends, [(Some(0), inner), (Some(124), Vec::new())]);
}

//! `reentry show`.

use reentry::__admin::Ids as _;
use serde_json::Value;

use super::kit::{hold, lines, process, run, wait};
use crate::support::server::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_has_its_own_output_and_exit_code() {
    let server = RedisServer::start().await;
    let shown = run(&server.url(), &["show", "order:42"]).await;
    assert_eq!((shown.code, &*shown.out), (Some(1), "order:42 is free\n"));
    let shown = run(&server.url(), &["show", "order:42", "--json"]).await;
    let free = &lines(&shown)[0];
    assert_eq!((shown.code, &free["mode"]), (Some(1), &"free".into()));
    assert_eq!(free["key"], "order:42");
}

/// The name of the process of a holder or a waiter.
fn name(of: &Value) -> &str {
    of["process"]["name"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_shown_with_its_holder_and_its_queue() {
    let server = RedisServer::start().await;
    let guard = hold(&process(&server).await, "order:42").await;
    let _waiting = [
        wait(&server, "order:42", 0).await,
        wait(&server, "order:42", 1).await,
        wait(&server, "order:42", 2).await,
    ];
    let json = run(&server.url(), &["show", "order:42", "--json"]).await;
    assert_eq!(json.code, Some(0));
    let json = &lines(&json)[0];
    assert_eq!(
        json["holders"][0]["hold_id"],
        guard.held().hold_id().to_string()
    );
    assert_eq!(
        (&json["places"], json["queue"].as_array().unwrap().len()),
        (&3.into(), 3)
    );
    assert_eq!(json["queue"][0]["alive"], true);

    let text = run(&server.url(), &["show", "order:42", "-n", "2"])
        .await
        .out;
    for part in [
        "order:42 is held, exclusive".to_owned(),
        format!(
            "holder   {}, pid {}",
            name(&json["holders"][0]),
            std::process::id()
        ),
        format!("hold     {}, depth 1", guard.held().hold_id()),
        format!("token    {}", guard.held().fencing_token()),
        "3 processes wait".to_owned(),
        format!("{}:{}@", name(&json["queue"][0]), std::process::id()),
        json["queue"][1]["hold_ids"][0].as_str().unwrap().to_owned(),
        "and 1 more".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    let last = json["queue"][2]["hold_ids"][0].as_str().unwrap();
    assert!(!text.contains(last), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_type_is_named_by_its_redis_type() {
    let server = RedisServer::start().await;
    for (made, holds) in [
        (
            "SET order 1",
            "a string, not a lock: does another program lock it with SET NX?",
        ),
        (
            "RPUSH order 1",
            "a list, not a lock: does another program use this key?",
        ),
    ] {
        server.ask("DEL order").await;
        server.ask(made).await;
        for words in [
            &["show", "order"][..],
            &["run", "order", "true"],
            &["run", "--nonblock", "order", "true"],
            &["run", "--permits", "2", "order", "true"],
            &["hold", "order"],
        ] {
            let refused = run(&server.url(), words).await;
            assert_eq!((refused.code, &*refused.out), (Some(125), ""), "{words:?}");
            assert_eq!(refused.err, format!("error: `order` holds {holds}\n"));
        }
    }
    // The user may not ask for the type.
    let rights = super::doctor::rights();
    server.ask(&format!("ACL SETUSER locker {rights}")).await;
    server.ask("SET app:order 1").await;
    let url = format!("redis://locker:password@{}", server.address());
    let refused = run(&url, &["show", "app:order"]).await;
    let holds = "`app:order` holds something other than a lock: does another program use this key?";
    assert_eq!(refused.err, format!("error: {holds}\n"));
}

/// Another program also excludes others if it names its fields differently.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_program_is_shown() {
    let server = RedisServer::start().await;
    server.ask("HSET order:42 worker-7 1").await;
    let text = run(&server.url(), &["show", "order:42"]).await.out;
    assert!(
        text.contains("worker-7, depth 1, of another program"),
        "{text}"
    );
    assert!(text.contains("lease    never expires"), "{text}");
}

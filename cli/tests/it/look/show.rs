//! `reentry show`.

use reentry::__admin::Ids as _;
use serde_json::Value;

use super::kit::{hold, lines, process, run, wait};
use crate::support::server::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_an_answer_of_its_own() {
    let server = RedisServer::start().await;
    let shown = run(&server.url(), &["show", "order:42"]).await;
    assert_eq!((shown.code, &*shown.out), (Some(1), "order:42 is free\n"));
    let shown = run(&server.url(), &["show", "order:42", "--json"]).await;
    assert_eq!(
        (shown.code, lines(&shown)[0]["lock"].is_null()),
        (Some(1), true)
    );
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
        json["lock"]["holders"][0]["hold_id"],
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
            name(&json["lock"]["holders"][0]),
            std::process::id()
        ),
        format!("hold     {}, depth 1", guard.held().hold_id()),
        format!("token    {}", guard.held().fencing_token()),
        "3 processes wait".to_owned(),
        format!("{}:{}@", name(&json["queue"][0]), std::process::id()),
        json["queue"][1]["holds"][0].as_str().unwrap().to_owned(),
        "and 1 more".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    let last = json["queue"][2]["holds"][0].as_str().unwrap();
    assert!(!text.contains(last), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_counted_and_some_are_named() {
    let server = RedisServer::start().await;
    let locks = process(&server).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(locks.lock("report").read().await.unwrap());
    }
    let text = run(&server.url(), &["show", "report"]).await.out;
    assert!(
        text.starts_with("report is shared by 20 holders\n"),
        "{text}"
    );
    assert!(text.contains("and 4 more\n"), "{text}");
}

/// Another program also excludes others if it names its fields differently.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_program_has_put_there_is_shown() {
    let server = RedisServer::start().await;
    server.ask("HSET order:42 worker-7 1").await;
    let text = run(&server.url(), &["show", "order:42"]).await.out;
    assert!(
        text.contains("worker-7, depth 1, of another program"),
        "{text}"
    );
    assert!(text.contains("lease    never expires"), "{text}");
}

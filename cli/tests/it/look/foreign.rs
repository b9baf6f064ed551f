//! Text from other sources is escaped on the terminal: keys, and messages of a server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::kit::{hold, process, run};
use crate::program::{end_of, reentry_for, script_at};
use crate::support::server::RedisServer;

/// Clears the screen, sets the title of the window, and reverses the direction of the text that follows.
const ORDERS: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}";

fn has_orders(text: &str) -> bool {
    text.contains(['\u{1b}', '\u{7}', '\u{202e}'])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_an_error_or_a_note_is_escaped() {
    let server = RedisServer::start().await;
    let key = format!("a{ORDERS}");
    let noted = end_of(script_at(&server, &["-v", "-k", &key], "true")).await;
    assert_eq!(noted.code, Some(0));
    assert!(noted.err.contains("acquired `a\\u{1b}[2J"), "{noted:?}");
    let _guard = hold(&process(&server).await, &key).await;
    let refused = end_of(script_at(&server, &["-n", "-k", &key], "true")).await;
    assert_eq!(refused.code, Some(124));
    for ended in [noted, refused] {
        assert!(!has_orders(&ended.err), "{ended:?}");
    }
    let colored = run(&server.url(), &["ls", "--color", "always"]).await.out;
    assert!(colored.contains("a\\u{1b}[2J"), "{colored}");
    assert!(!colored.contains("\u{1b}[2J"), "{colored}");
    // A program reads the original key.
    let listed = run(&server.url(), &["ls", "--json"]).await;
    assert!(!has_orders(&listed.out), "{listed:?}");
    let lock: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(lock["key"], key);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_from_a_server_are_escaped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut client = BufReader::new(client);
                let mut line = String::new();
                while client.read_line(&mut line).is_ok_and(|read| read > 0) {
                    // One response for each command.
                    if line.starts_with('*') {
                        let answer = format!("-ERR it is{ORDERS} so\r\n");
                        let _ = client.get_mut().write_all(answer.as_bytes());
                    }
                    line.clear();
                }
            });
        }
    });
    for form in [&["ls"][..], &["--json", "ls"]] {
        let ended = end_of(reentry_for(&url, form)).await;
        assert_ne!(ended.code, Some(0));
        assert!(ended.err.contains("it is"), "{ended:?}");
        assert!(!has_orders(&ended.err), "{ended:?}");
    }
}

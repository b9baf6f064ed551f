//! The proxy of the test support does to a connection what it says, when it says.

use crate::support::Direction::{ToClient, ToServer};
use crate::support::{Action, Cut, DEADLINE, Proxy, RedisServer, eventually, within};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult};
use std::io::{ErrorKind, Result};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const INCR: &[u8] = b"INCR key\r\n";

async fn behind_a_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    (server, proxy)
}

async fn dial(proxy: &Proxy) -> TcpStream {
    let address = ("127.0.0.1", proxy.port());
    TcpStream::connect(address).await.unwrap()
}

async fn send(stream: &mut TcpStream, request: &[u8]) {
    stream.write_all(request).await.unwrap();
}

/// What comes next on the stream, as text; empty at its end.
async fn hear(stream: &mut TcpStream) -> Result<String> {
    let mut buffer = [0; 1024];
    let read = stream.read(&mut buffer);
    let length = within(DEADLINE, "bytes, an end or an error", read).await?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

async fn value(server: &RedisServer) -> i64 {
    let value: Option<i64> = server.connection().await.get("key").await.unwrap();
    value.unwrap_or(0)
}

async fn eventually_is(server: &RedisServer, expected: i64) {
    let what = format!("the key is {expected}");
    eventually(DEADLINE, &what, async || value(server).await == expected).await;
}

async fn client(proxy: &Proxy) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
    let client = Client::open(proxy.url()).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

#[tokio::test]
async fn what_passes_is_counted_and_both_ends_are_told() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":1\r\n");
    assert_eq!(
        (proxy.bytes(ToServer), proxy.connections(), proxy.open()),
        (10, 1, 1)
    );
    drop(stream);
    proxy.wait_for_open(0).await;

    let mut stream = dial(&proxy).await;
    proxy.wait_for_connections(2).await;
    proxy.wait_for_open(1).await;
    server.stop();
    assert!(hear(&mut stream).await.is_ok_and(|end| end.is_empty()));
}

#[tokio::test]
async fn a_cut_connection_ends_in_order_or_by_reset() {
    let (_server, proxy) = behind_a_proxy().await;
    for how in [Cut::Fin, Cut::Reset] {
        let mut stream = dial(&proxy).await;
        send(&mut stream, INCR).await;
        hear(&mut stream).await.unwrap();
        proxy.cut_all(how).await;
        let end = hear(&mut stream).await.map_err(|error| error.kind());
        let expected = match how {
            Cut::Fin => Ok(String::new()),
            Cut::Reset => Err(ErrorKind::ConnectionReset),
        };
        assert_eq!(end, expected);
        proxy.wait_for_open(0).await;
    }
}

#[tokio::test]
async fn a_frozen_connection_passes_nothing_and_later_ones_go_on() {
    let (server, proxy) = behind_a_proxy().await;
    let mut frozen = dial(&proxy).await;
    send(&mut frozen, INCR).await;
    hear(&mut frozen).await.unwrap();
    proxy.freeze_present();
    send(&mut frozen, INCR).await;
    let mut later = dial(&proxy).await;
    send(&mut later, INCR).await;
    assert_eq!(hear(&mut later).await.unwrap(), ":2\r\n");
    proxy.cut_all(Cut::Reset).await;
    proxy.wait_for_open(1).await;
    proxy.cut_frozen().await;
    let end = hear(&mut frozen).await.map_err(|error| error.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    assert_eq!(value(&server).await, 2);
}

#[tokio::test]
async fn a_client_library_cut_before_during_and_after_execution() {
    let (server, proxy) = behind_a_proxy().await;
    for (how, cut, executed) in [
        (ToServer, Action::CutInstead(Cut::Reset), 0),
        (ToServer, Action::CutClientAfter(Cut::Fin), 1),
        (ToServer, Action::CutAtAnswer(Cut::Reset), 2),
        (ToClient, Action::CutInstead(Cut::Fin), 3),
    ] {
        let mut client = client(&proxy).await;
        let needle = if how == ToServer {
            b"INCRBY".as_slice()
        } else {
            b":"
        };
        proxy.on_next(how, needle, cut);
        let answer: RedisResult<i64> = client.incr("key", 1).await;
        assert!(answer.unwrap_err().is_unrecoverable_error());
        eventually_is(&server, executed).await;
    }
    assert_eq!(proxy.hits(), 4);
    let counted: i64 = client(&proxy).await.incr("key", 1).await.unwrap();
    assert_eq!(counted, 4);
}

#[tokio::test]
async fn a_held_request_executes_late_though_its_client_is_gone() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.hold(ToServer);
    send(&mut stream, INCR).await;
    proxy.wait_until_held(ToServer, b"INCR").await;
    drop(stream);
    proxy.wait_for_open(0).await;
    assert_eq!(value(&server).await, 0);
    proxy.release(ToServer);
    eventually_is(&server, 1).await;

    let mut stream = dial(&proxy).await;
    proxy.on_next(ToServer, b"INCR", Action::Hold);
    send(&mut stream, INCR).await;
    proxy.wait_until_held(ToServer, b"INCR").await;
    proxy.cut_clients(Cut::Reset).await;
    assert!(hear(&mut stream).await.is_err());
    let mut other = dial(&proxy).await;
    send(&mut other, b"SET key 10\r\n").await;
    assert_eq!(hear(&mut other).await.unwrap(), "+OK\r\n");
    proxy.release(ToServer);
    eventually_is(&server, 11).await;
}

#[tokio::test]
async fn a_held_request_of_a_connection_cut_on_both_sides_is_lost() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.hold(ToServer);
    send(&mut stream, INCR).await;
    proxy.wait_until_held(ToServer, INCR).await;
    proxy.cut_all(Cut::Fin).await;
    proxy.release(ToServer);
    let mut stream = dial(&proxy).await;
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":1\r\n");
    assert_eq!(value(&server).await, 1);
}

#[tokio::test]
async fn held_answers_arrive_in_order_when_released() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.wait_for_open(1).await;
    proxy.hold_present(ToClient);
    for turn in 1..=3 {
        send(&mut stream, INCR).await;
        eventually_is(&server, turn).await;
        proxy
            .wait_until_held(ToClient, format!(":{turn}").as_bytes())
            .await;
    }
    let mut later = dial(&proxy).await;
    send(&mut later, INCR).await;
    assert_eq!(hear(&mut later).await.unwrap(), ":4\r\n");
    proxy.release(ToClient);
    let mut answers = [0; 12];
    stream.read_exact(&mut answers).await.unwrap();
    assert_eq!(&answers, b":1\r\n:2\r\n:3\r\n");
}

#[tokio::test]
async fn a_black_hole_accepts_and_never_answers_until_it_is_healed() {
    let (server, proxy) = behind_a_proxy().await;
    let mut old = dial(&proxy).await;
    send(&mut old, INCR).await;
    hear(&mut old).await.unwrap();
    proxy.blackhole();
    let mut new = dial(&proxy).await;
    send(&mut old, INCR).await;
    send(&mut new, INCR).await;
    proxy.wait_for_open(2).await;
    let wait = Duration::from_millis(50);
    let both = async { tokio::join!(hear(&mut old), hear(&mut new)) };
    assert!(tokio::time::timeout(wait, both).await.is_err());
    proxy.cut_all(Cut::Reset).await;
    proxy.heal().await;
    let mut stream = dial(&proxy).await;
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":2\r\n");
    assert_eq!(value(&server).await, 2);
}

#[tokio::test]
async fn new_connections_are_refused_while_present_ones_go_on() {
    let (_server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.wait_for_open(1).await;
    proxy.refuse().await;
    let refused = TcpStream::connect(("127.0.0.1", proxy.port())).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":1\r\n");
    proxy.accept().await;
    dial(&proxy).await;
}

#[tokio::test]
async fn a_lost_message_leaves_the_subscription_alive() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    send(&mut stream, b"SUBSCRIBE news\r\n").await;
    assert!(hear(&mut stream).await.unwrap().contains("subscribe"));
    proxy.on_next(ToClient, b"first", Action::Lose);
    let mut publisher = server.connection().await;
    let _: i64 = publisher.publish("news", "first").await.unwrap();
    proxy.wait_for_hits(1).await;
    let _: i64 = publisher.publish("news", "second").await.unwrap();
    let message = hear(&mut stream).await.unwrap();
    assert!(message.contains("second") && !message.contains("first"));
}

#[tokio::test]
async fn a_request_executes_twice_or_again_later() {
    let (server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    proxy.on_next(ToServer, b"INCR", Action::Twice);
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":2\r\n");

    proxy.on_next(ToServer, b"INCR", Action::Record);
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":3\r\n");
    assert_eq!(proxy.recorded(), [INCR]);
    assert_eq!(proxy.replay(&proxy.recorded()[0]).await, b":4\r\n");
    assert_eq!(value(&server).await, 4);
}

#[tokio::test]
async fn delayed_bytes_come_late_and_in_order() {
    let (_server, proxy) = behind_a_proxy().await;
    let mut stream = dial(&proxy).await;
    let late = Duration::from_millis(60);
    proxy.on_next(ToServer, b"INCR", Action::Delay(late));
    proxy.delay(ToClient, late);
    let start = Instant::now();
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":1\r\n");
    assert!(start.elapsed() >= 2 * late);
}

#[tokio::test]
async fn the_proxy_outlives_a_server_that_is_down() {
    let (server, proxy) = behind_a_proxy().await;
    server.stop();
    // The reset may come before the connection is seen to be open.
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", proxy.port())).await {
        assert!(hear(&mut stream).await.is_err());
    }
    server.start_again().await;
    let mut stream = dial(&proxy).await;
    send(&mut stream, INCR).await;
    assert_eq!(hear(&mut stream).await.unwrap(), ":1\r\n");
}

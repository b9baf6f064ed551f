//! A process that was stalled for longer than its lease continues to write. Without the fence it overwrites what the
//! next holder has written. With the fence no write is lost.

use std::time::Duration;

use reentry::{Locks, OnLost};

use super::ground::{Ground, on_each_database};
use super::session::{Database, Session};
use crate::support::{Child, RedisServer, child, connect, patient_at};

const KEY: &str = "account:7";

/// The lease of the process that is stalled.
const LEASE: Duration = Duration::from_millis(150);

/// The number of times that the process is stalled.
const ROUNDS: usize = 4;

/// The number that the next holder adds each time. The process that was stalled adds 1.
const NEXT: i64 = 100;

on_each_database!(a_holder_that_overslept_loses_no_update_of_the_next);

/// The way in which the process writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Fenced,
    Plain,
}

/// Reads the balance under the lock, and writes the next one on a signal, whatever has happened to the lock.
#[tokio::test]
async fn role_that_oversleeps() {
    let Some(role) = child::role("role_that_oversleeps") else {
        return;
    };
    let builder = patient_at(role.var("REDIS_URL")).ttl(LEASE);
    let locks = builder.build().await.unwrap();
    let databases = [Database::Postgres, Database::MariaDb, Database::Sqlite];
    let is_named = |database: &Database| format!("{database:?}") == role.var("DATABASE");
    let database = databases.into_iter().find(is_named).unwrap();
    let mut session = Session::open(database, &role.var("PLACE"), &role.var("NAME"));
    let write = match &*role.var("WRITE") {
        "Fenced" => Write::Fenced,
        _ => Write::Plain,
    };
    while role.order().await == "begin" {
        let body = async {
            let token = reentry::held(KEY).unwrap().fencing_token().as_i64();
            let balance = session.balance().await;
            role.say("has read");
            role.order().await;
            if write == Write::Fenced {
                let entered = session.enter(KEY, token).await;
                if entered.is_refused() {
                    session.roll_back().await;
                    return "refused";
                }
                entered.done();
            } else {
                session.run(session.database.begin()).await.done();
            }
            let update = format!("UPDATE account SET balance = {}", balance + 1);
            session.run(&update).await.done();
            session.commit().await;
            "written"
        };
        let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
        role.say(format!("result: {}", request.run(body).await.unwrap()));
    }
}

/// Acquires the lock after the process that is stalled, and adds to the balance.
async fn next(locks: &Locks, session: &mut Session) {
    let body = async {
        let token = reentry::held(KEY).unwrap().fencing_token().as_i64();
        session.enter(KEY, token).await.done();
        session.add(NEXT).await;
        session.commit().await;
    };
    locks.with_lock(KEY, body).await.unwrap();
}

/// The results of the process in all rounds, and the balance at the end.
async fn run(ground: &Ground, write: Write) -> (Vec<String>, i64) {
    let server = RedisServer::start().await;
    let locks = connect(&server).await;
    let mut session = ground.session();
    let database = format!("{:?}", session.database);
    let (place, name) = ground.address();
    let variables = [
        ("REDIS_URL", &*server.url()),
        ("DATABASE", &database),
        ("PLACE", place),
        ("NAME", name),
        ("WRITE", &format!("{write:?}")),
    ];
    let mut holder = Child::spawn(module_path!(), "role_that_oversleeps", &variables);
    let mut results = Vec::new();
    for _ in 0..ROUNDS {
        holder.tell("begin");
        holder.wait_for_line("has read").await;
        holder.sigstop();
        next(&locks, &mut session).await;
        holder.tell("write on");
        holder.sigcont();
        results.push(holder.wait_for_line("result: ").await);
    }
    holder.tell("end");
    assert!(holder.finished().await);
    (results, session.balance().await)
}

async fn a_holder_that_overslept_loses_no_update_of_the_next(ground: Ground) {
    let rounds = i64::try_from(ROUNDS).unwrap();
    let (results, balance) = run(&ground, Write::Plain).await;
    assert_eq!(
        (results, balance),
        (vec!["written".to_owned(); ROUNDS], rounds)
    );
    let (results, balance) = run(&ground, Write::Fenced).await;
    let expected = rounds + rounds * NEXT;
    assert_eq!(
        (results, balance),
        (vec!["refused".to_owned(); ROUNDS], expected)
    );
}

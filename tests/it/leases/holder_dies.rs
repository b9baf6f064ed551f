//! P5, P6 and P11 when the process of a holder is killed, or stopped for longer than its lease.

use std::future::pending;
use std::time::{Duration, Instant};

use crate::support::{Child, DEADLINE, RedisServer, child, connect, patient_at, within};
use reentry::{LockError, Locks, LostReason};

const KEY: &str = "order:42";

/// The lease of a child that is stopped for longer than that.
const LEASE: Duration = Duration::from_secs(4);

/// A lease that has not ended when the test looks at it, however busy the machine is.
const LASTING: Duration = Duration::from_secs(10);

fn lease_of(role: &child::Role) -> Duration {
    Duration::from_secs(role.var("LEASE").parse().unwrap())
}

async fn locks_of(role: &child::Role) -> Locks {
    let locks = patient_at(role.var("REDIS_URL")).ttl(lease_of(role));
    locks.build().await.unwrap()
}

fn spawn(role: &str, server: &RedisServer, lease: Duration) -> Child {
    let lease = lease.as_secs().to_string();
    let vars = [("REDIS_URL", &*server.url()), ("LEASE", &lease)];
    Child::spawn(module_path!(), role, &vars)
}

/// Enters after the present holder. Returns its token.
async fn enter_next(server: &RedisServer) -> u64 {
    let locks = connect(server).await;
    let body = async { u64::from(reentry::held(KEY).unwrap().fencing_token()) };
    let locked = locks.with_lock(KEY, body);
    within(DEADLINE, "the next one enters", locked)
        .await
        .unwrap()
}

#[tokio::test]
async fn role_that_holds() {
    let Some(role) = child::role("role_that_holds") else {
        return;
    };
    let body = async {
        role.say(format!(
            "holding {}",
            reentry::held(KEY).unwrap().fencing_token()
        ));
        pending::<()>().await;
    };
    let _ = locks_of(&role).await.with_lock(KEY, body).await;
}

#[tokio::test]
async fn a_killed_holder_keeps_the_next_one_out_until_its_lease_ends_and_no_longer() {
    let server = RedisServer::start().await;
    let mut holder = spawn("role_that_holds", &server, LASTING);
    let token: u64 = holder.wait_for_line("holding").await.parse().unwrap();
    let locks = connect(&server).await;
    holder.sigkill();
    let killed = Instant::now();
    let info = locks
        .admin()
        .inspect(KEY)
        .await
        .unwrap()
        .expect("its lease goes on");
    let next = enter_next(&server).await;
    // It does not enter earlier. The lease was seen after `killed`, however long the inspection took. The server counts in
    // whole milliseconds.
    let remaining = info.remaining.unwrap();
    assert!(remaining <= LASTING && next > token);
    assert!(killed.elapsed() + Duration::from_millis(5) >= remaining);
}

/// Makes a step every few milliseconds, and reports a step that comes after more than a lease.
#[tokio::test]
async fn role_that_steps() {
    let Some(role) = child::role("role_that_steps") else {
        return;
    };
    let lease = lease_of(&role);
    let mut first = true;
    let mut last = Instant::now();
    let body = async {
        loop {
            if last.elapsed() > lease {
                role.say("result: a step after the lease");
            }
            last = Instant::now();
            if std::mem::take(&mut first) {
                role.say("stepping");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let locks = locks_of(&role).await;
    let inner = locks.with_lock(KEY, body);
    let result = locks.with_lock(KEY, inner).await;
    role.say(match result {
        Err(LockError::Lost { reason, .. }) => format!("result: lost, {reason:?}"),
        other => format!("result: {other:?}"),
    });
    // The process works: it acquires the lock again, at the head of the queue.
    role.say(match locks.with_lock(KEY, async {}).await {
        Ok(()) => "again: entered".to_owned(),
        Err(error) => format!("again: {error}"),
    });
}

#[tokio::test]
async fn a_process_stopped_beyond_its_lease_makes_no_step_after_it() {
    let server = RedisServer::start().await;
    let mut holder = spawn("role_that_steps", &server, LEASE);
    holder.wait_for_line("stepping").await;
    holder.sigstop();
    enter_next(&server).await;
    holder.sigcont();
    // When the process continues, its timers and its body wake up together. The deadline is checked first.
    let result = holder.wait_for_line("result:").await;
    assert_eq!(result, format!("lost, {:?}", LostReason::Expired));
    assert_eq!(holder.wait_for_line("again:").await, "entered");
    assert!(holder.finished().await);
}

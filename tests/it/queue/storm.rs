//! P1, P7, P8, P9 and P11 together, between processes: many that wait in several processes, give up, time
//! out and are dropped, while messages are lost and connections cut; and afterwards nothing is left.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::rig::KEY;
use crate::support::turns::TTL;
use crate::support::{
    Action, Cut, DEADLINE, Direction::ToClient, Proxy, RedisServer, Section, eventually, patient,
    within,
};
use reentry::{FencingToken, HandOff, LockError, Locks, LocksBuilder, Wake, held};
use tokio::task::{JoinSet, yield_now};

/// What the lock protects: nobody overlaps, and no token is smaller than one before.
#[derive(Debug, Default)]
struct Resource {
    section: Section,
    greatest: Mutex<Option<FencingToken>>,
}

impl Resource {
    async fn visit(&self) {
        let token = Some(held(KEY).unwrap().fencing_token());
        let before = std::mem::replace(&mut *self.greatest.lock().unwrap(), token);
        assert!(token > before, "{token:?} after {before:?}");
        self.section.visit().await;
    }
}

/// Who does not wait for long may find the lock held, or the server out of reach.
fn unless_too_late(result: Result<(), LockError>) {
    match result {
        Ok(())
        | Err(LockError::Busy { .. } | LockError::Timeout { .. } | LockError::Store { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
}

async fn contend(locks: Locks, resource: Arc<Resource>, mut dice: Dice) {
    for _ in 0..15 {
        let wait = Duration::from_millis(1 + dice.roll(40));
        let turns = dice.roll(30);
        match dice.roll(7) {
            0 => unless_too_late(locks.lock(KEY).wait(wait).run(resource.visit()).await),
            1 => unless_too_late(locks.lock(KEY).no_wait().run(resource.visit()).await),
            2 => {
                // Dropped wherever it is by then.
                let waiting = pin!(locks.with_lock(KEY, resource.visit()));
                let given_up = async {
                    for _ in 0..turns {
                        yield_now().await;
                    }
                };
                tokio::select! {
                    biased;
                    result = waiting => result.unwrap(),
                    () = given_up => {}
                }
            }
            3 => {
                let waiting = locks.with_lock(KEY, resource.visit());
                if let Ok(result) = tokio::time::timeout(wait, waiting).await {
                    result.unwrap();
                }
            }
            4 => {
                let nested = async {
                    resource.visit().await;
                    locks
                        .with_lock(KEY, resource.section.visit())
                        .await
                        .unwrap();
                };
                locks.with_lock(KEY, nested).await.unwrap();
            }
            _ => locks.with_lock(KEY, resource.visit()).await.unwrap(),
        }
    }
}

/// Four processes of different kinds, eight contenders in each, and a network that is disturbed all the
/// while.
async fn storm(faults: &[Action], cut: Option<Cut>, seed: u64) {
    let server = RedisServer::start().await;
    let proxy = Proxy::start(server.port());
    let builder = patient(&server).url(proxy.url()).ttl(TTL);
    let builder = builder.heartbeat(Duration::from_millis(500));
    let interval = Duration::from_millis(5);
    let attempts = None;
    let kinds: [fn(LocksBuilder) -> LocksBuilder; 3] = [
        |builder| builder.local_handoffs(0),
        |builder| builder.handoff(HandOff::InProcess).local_handoffs(3),
        |builder| builder.local_handoffs(2),
    ];
    let mut processes = Vec::new();
    for kind in kinds {
        processes.push(kind(builder.clone()).build().await.unwrap());
    }
    let asking = builder.wake(Wake::Poll { interval, attempts }).build();
    processes.push(asking.await.unwrap());

    let resource = Arc::new(Resource::default());
    let mut tasks = JoinSet::new();
    let mut dice = Dice(seed);
    for number in 0..32 {
        let locks = processes[number % processes.len()].clone();
        tasks.spawn(contend(
            locks,
            Arc::clone(&resource),
            Dice(dice.roll(1 << 31)),
        ));
    }
    let disturb = async {
        for round in 0..12 {
            let fault = faults[usize::try_from(dice.roll(8)).unwrap() % faults.len()];
            proxy.on_next(ToClient, b"$7\r\nmessage\r\n", fault);
            let hits = proxy.hits();
            let more = async || proxy.hits() > hits;
            eventually(3 * DEADLINE, "messages go on", more).await;
            if let Some(how) = cut.filter(|_| round % 2 == 0) {
                proxy.cut_all(how).await;
            }
        }
        pending::<()>().await;
    };
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    tokio::select! {
        () = within(3 * DEADLINE, "all have their turns", all) => {}
        () = disturb => {}
    }
    assert!(resource.section.visits() > 0);

    proxy.heal().await;
    let gone = async || {
        let kinds = ["", "reentry:queue:", "reentry:entries:"];
        for kind in kinds {
            let key = if kind.is_empty() {
                KEY.to_owned()
            } else {
                format!("{kind}{{{KEY}}}:{KEY}")
            };
            if server.ask(&format!("EXISTS {key}")).await != "0" {
                return false;
            }
        }
        true
    };
    eventually(DEADLINE, "no lock and no queue is left", gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_goes_wrong_while_messages_are_lost() {
    storm(&[Action::Lose], None, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_goes_wrong_while_inboxes_die() {
    let faults = [
        Action::CutInstead(Cut::Reset),
        Action::CutClientAfter(Cut::Fin),
    ];
    storm(&faults, None, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_goes_wrong_while_every_connection_dies() {
    let faults = [Action::Lose, Action::CutInstead(Cut::Fin), Action::Record];
    storm(&faults, Some(Cut::Reset), 3).await;
}

//! Every future of the crate is dropped after its first poll, after its second, and so on, while a fault affects its
//! requests. A moment later nothing of it may be left (P7, P8): no lock, no place in a queue, no neighbour asleep, no
//! task.
//!
//! To sweep a new future, add it to [`FUTURES`].

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::climate::{Climate, Fate};
use super::ledger::Ledger;
use super::link::Link;
use super::run::simulated;
use super::server::Server;
use crate::support::sweep::poll_at_most;
use crate::{FutureExt, LockError, Locks, OnLost};

const KEY: &str = "swept";

/// The key and others that are acquired together with it, one before it and one after it.
const SEVERAL: [&str; 3] = [KEY, "ahead", "behind"];

/// A TTL that is much longer than a sweep, so that no lease expires.
const TTL: Duration = Duration::from_secs(3_000);

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The time for which a late request or response is in flight. It is longer than any caller waits for it.
const LATE: Duration = Duration::from_secs(3);

/// A time that suffices for a holder to leave, and for the lock to arrive.
const ALONE: Duration = Duration::from_millis(100);

/// An acquisition inside a lock may repeat its requests until a lease ends. After this number of polls it only repeats
/// itself. Every other future completes before.
const REPEATS: usize = 24;

/// The time after which nothing may be left. By then a late request has arrived, and its response was given up.
const SOON: Duration = Duration::from_secs(10);

type Swept = Pin<Box<dyn Future<Output = ()>>>;

/// A future and its name.
type Make = (&'static str, fn(Locks) -> Swept);

/// The actions of a caller, step by step. None of them fails unless its request does.
const FUTURES: &[Make] = &[
    ("with_lock", |locks| {
        Box::pin(async move { drop(locks.with_lock(KEY, body()).await) })
    }),
    ("try_with_lock", |locks| {
        Box::pin(async move {
            let body = async {
                body().await;
                Ok::<_, LockError>(())
            };
            drop(locks.try_with_lock(KEY, body).await);
        })
    }),
    ("nested", |locks| {
        Box::pin(async move {
            let inner = locks.with_lock(KEY, locks.with_lock(KEY, body()));
            drop(locks.with_lock(KEY, inner).await);
        })
    }),
    ("branches", |locks| {
        Box::pin(async move {
            let branches =
                async { tokio::join!(locks.with_lock(KEY, body()), locks.with_lock(KEY, body())) };
            drop(locks.with_lock(KEY, branches).await);
        })
    }),
    ("separate", |locks| {
        Box::pin(async move {
            drop(tokio::join!(
                locks.with_lock(KEY, body()),
                locks.with_lock(KEY, body())
            ));
        })
    }),
    ("keep_running", |locks| {
        Box::pin(async move {
            let request = locks.lock(KEY).on_lost(OnLost::KeepRunning);
            drop(request.run(body()).await);
        })
    }),
    ("guard", |locks| {
        Box::pin(async move {
            if let Ok(guard) = locks.lock(KEY).await {
                drop(guard.scope(locks.with_lock(KEY, body())).await);
                drop(guard.release().await);
            }
        })
    }),
    ("try_acquire", |locks| {
        Box::pin(async move { drop(locks.lock(KEY).try_acquire().await) })
    }),
    ("short wait", |locks| {
        Box::pin(async move {
            let request = locks.lock(KEY).wait(Duration::from_millis(20));
            drop(request.run(body()).await);
        })
    }),
    ("spawned", |locks| {
        Box::pin(async move {
            let child = || locks.with_lock(KEY, locks.with_lock(KEY, body()));
            let body = async {
                let awaited = crate::spawn(child());
                let kept = child().in_current_call();
                drop(awaited.await);
                (crate::spawn(child()), kept)
            };
            if let Ok((task, kept)) = locks.with_lock(KEY, body).await {
                drop(kept.await);
                drop(task.await);
            }
        })
    }),
    ("several", |locks| {
        Box::pin(async move { drop(locks.lock_all(SEVERAL).run(body()).await) })
    }),
    ("several, one re-entered", |locks| {
        Box::pin(async move {
            let inner = locks.lock_all(SEVERAL).run(body());
            drop(locks.with_lock(KEY, inner).await);
        })
    }),
    ("read", |locks| {
        Box::pin(async move { drop(locks.lock(KEY).read().run(body()).await) })
    }),
    ("reads", |locks| {
        Box::pin(async move {
            drop(tokio::join!(
                locks.lock(KEY).read().run(body()),
                locks
                    .lock(KEY)
                    .read()
                    .run(locks.lock(KEY).read().run(body())),
                locks.with_lock(KEY, locks.lock(KEY).read().run(body())),
                locks.lock(KEY).read().run(body())
            ));
        })
    }),
    ("permits", |locks| {
        Box::pin(async move {
            let permit = || locks.semaphore(KEY, 2).run(body());
            drop(tokio::join!(permit(), permit(), permit()));
        })
    }),
    ("inspect", |locks| {
        Box::pin(async move { drop(locks.admin().inspect(KEY).await) })
    }),
];

/// Takes several polls.
async fn body() {
    yield_now().await;
    sleep(Duration::from_millis(2)).await;
    yield_now().await;
}

/// The fault during the life of the future.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Nothing,
    AnswersLate,
    AnswersLost,
    RequestsLate,
    RequestsLost,
    Twice,
    /// The connections end at the moment of the drop.
    Cut,
    /// The connection is cut, and the requests in flight are lost.
    CutAndLost,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::Nothing,
    Trouble::AnswersLate,
    Trouble::AnswersLost,
    Trouble::RequestsLate,
    Trouble::RequestsLost,
    Trouble::Twice,
    Trouble::Cut,
    Trouble::CutAndLost,
];

impl Trouble {
    fn fate(self) -> Fate {
        let travel = Duration::from_millis(1);
        let mut fate = Fate {
            there: travel,
            back: travel,
            ..Fate::good()
        };
        match self {
            Self::Nothing | Self::Cut => {}
            Self::AnswersLate => fate.back = LATE,
            Self::AnswersLost => fate.answered = false,
            Self::RequestsLate => fate.there = LATE,
            Self::RequestsLost => fate.arrives = false,
            Self::Twice => fate.again = Some(LATE),
            Self::CutAndLost => fate.survives_a_cut = false,
        }
        fate
    }

    fn is_late(self) -> bool {
        matches!(self, Self::AnswersLate | Self::RequestsLate)
    }

    fn cuts(self) -> bool {
        matches!(self, Self::Cut | Self::CutAndLost)
    }
}

/// The beginning of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Onset {
    /// From the first poll on.
    Start,
    /// From before the poll after which the future is dropped.
    LastPoll,
    /// The future is not polled for a while before it is dropped. The response to its request arrives, and is not read.
    LeftAlone,
}

const ONSETS: [Onset; 3] = [Onset::Start, Onset::LastPoll, Onset::LeftAlone];

/// The other callers that want the lock.
#[derive(Clone, Copy, Debug)]
enum Company {
    None,
    /// Another process holds it when the future begins, and releases soon.
    HolderElsewhere,
    /// Two more wait behind the future, one in this process and one in another process.
    Behind,
    /// `HolderElsewhere` and `Behind` together.
    BetweenElsewhere,
    /// This process holds it and releases soon, and two wait behind the future.
    BetweenHere,
    /// A reader of this process and one of another process are inside when the future begins, and leave soon. Two more
    /// join behind it.
    Readers,
}

/// Drops one future after this number of polls. Returns whether it had completed by then.
async fn drop_after(
    polls: usize,
    make: fn(Locks) -> Swept,
    (trouble, onset): (Trouble, Onset),
    company: Company,
) -> Result<bool, String> {
    let server = Arc::new(Server::new());
    let ledger = Ledger::new(Climate::CALM);
    let process = || {
        let link = Link::new(&server, &ledger, Climate::CALM, RESPONSE_TIMEOUT);
        let builder = Locks::builder("memory:").ttl(TTL).outage(Duration::MAX);
        (
            link.clone(),
            builder.build_on_wire(Arc::new(link), RESPONSE_TIMEOUT),
        )
    };
    let ((link, here), (_, elsewhere)) = (process(), process());
    let holders = match company {
        Company::None | Company::Behind => vec![],
        Company::HolderElsewhere | Company::BetweenElsewhere => vec![elsewhere.lock(KEY)],
        Company::BetweenHere => vec![here.lock(KEY)],
        Company::Readers => [&elsewhere, &here]
            .map(|locks| locks.lock(KEY).read())
            .into(),
    };
    for holder in holders {
        let guard = holder.await.map_err(|error| error.to_string())?;
        drop(tokio::spawn(async move {
            sleep(Duration::from_millis(10)).await;
            drop(guard);
        }));
    }
    link.set_fate((onset == Onset::Start).then(|| trouble.fate()));
    // They run after the future has been polled once, and so join behind it.
    let behind: Vec<_> = match company {
        Company::Behind | Company::BetweenElsewhere | Company::BetweenHere => {
            vec![here.lock(KEY), elsewhere.lock(KEY)]
        }
        Company::Readers => [&here, &elsewhere]
            .map(|locks| locks.lock(KEY).read())
            .into(),
        _ => Vec::new(),
    };
    let mut behind: Vec<_> = behind
        .into_iter()
        .map(|request| tokio::spawn(async move { request.wait(Duration::MAX).run(body()).await }))
        .collect();
    let mut swept = make(here.clone());
    let begins = || link.set_fate(Some(trouble.fate()));
    let completed = poll_at_most(polls, &mut swept, begins).await.is_some();
    if onset == Onset::LeftAlone {
        sleep(ALONE).await;
    }
    if trouble.cuts() {
        link.cut(true, true);
    }
    drop(swept);
    link.set_fate(None);
    sleep(SOON).await;
    for waiter in &mut behind {
        let turn = timeout(Duration::ZERO, waiter).await;
        if !matches!(turn, Ok(Ok(Ok(())))) {
            return Err(format!("a neighbour has had no turn: {turn:?}"));
        }
    }
    let (_, visitor) = process();
    match visitor.lock_all(SEVERAL).try_acquire().await {
        Ok(Some(guard)) => drop(guard.release().await),
        other => return Err(format!("the lock is left behind: {other:?}")),
    }
    drop((here, elsewhere, visitor));
    sleep(SOON).await;
    match Handle::current().metrics().num_alive_tasks() {
        0 => Ok(completed),
        tasks => Err(format!("{tasks} tasks are left")),
    }
}

/// Drops one future after every poll. Returns the number of drops.
fn sweep((name, make): Make, trouble: (Trouble, Onset), company: Company) -> usize {
    for polls in 1.. {
        match simulated(7, drop_after(polls, make, trouble, company)) {
            Ok(false) if polls < REPEATS => {}
            Ok(_) => return polls,
            Err(error) => panic!("{name} after poll {polls}, {trouble:?}, {company:?}: {error}"),
        }
    }
    unreachable!("some poll completes it, or it repeats itself")
}

fn sweep_all(company: Company) {
    let mut drops = 0;
    for &future in FUTURES {
        for trouble in TROUBLES {
            for onset in ONSETS {
                // Late responses arrive after the time in which the future is not polled, as lost ones do.
                if onset != Onset::LeftAlone || !trouble.is_late() {
                    drops += sweep(future, (trouble, onset), company);
                }
            }
        }
    }
    println!("{drops} drops");
}

#[test]
fn any_future_may_be_dropped_whatever_is_wrong() {
    sweep_all(Company::None);
}

#[test]
fn any_future_may_be_dropped_among_readers() {
    sweep_all(Company::Readers);
}

#[test]
fn any_future_may_be_dropped_behind_a_holder_elsewhere() {
    sweep_all(Company::HolderElsewhere);
}

#[test]
fn any_future_may_be_dropped_with_others_behind() {
    sweep_all(Company::Behind);
}

#[test]
fn any_future_may_be_dropped_between_others_elsewhere() {
    sweep_all(Company::BetweenElsewhere);
}

#[test]
fn any_future_may_be_dropped_between_others_here() {
    sweep_all(Company::BetweenHere);
}

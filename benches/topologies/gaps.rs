//! How long can no caller acquire a lock around a fault?
//!
//! There are three observers: a loop that continuously acquires and releases a lock, a caller that waits in a queue
//! while the holder releases during the outage, and holds that outlast it. All of their keys are in one slot. The locks
//! have default options. Sentinels consider a server down after 1 s, and the nodes of a cluster after 2 s.

mod ground;
mod traffic;

use std::time::{Duration, Instant};

use self::ground::{FAULTS, Fault, Ground};
use self::traffic::Traffic;
use super::numbers::both;
use super::rounds;
use crate::support::{eventually, within};
use reentry::{Locks, LocksBuilder};
use tokio::time::sleep;

/// The time limit for each step.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the loop runs before the fault, and after the lock can be acquired again.
const AROUND: Duration = Duration::from_secs(1);

/// When the holder releases after a fault: while the server is down, unless it is down for a shorter time.
const RELEASE: Duration = Duration::from_millis(20);

/// The number of holds that outlast the fault.
const HOLDS: usize = 20;

/// The observations for one fault.
#[derive(Debug)]
struct Outcome {
    /// The longest time between the beginnings of two sections that ended without an error.
    gap: Duration,
    /// The time from the fault until a server accepted writes.
    served: Duration,
    /// The time from the fault until the servers named this server: the first sentinel named it.
    told: Duration,
    /// The time from then until the end of the gap, if that caused the gap.
    followed: Option<Duration>,
    /// The time from the fault until the waiting caller entered.
    entered: Duration,
    /// The number of holds that were lost.
    lost: usize,
    /// The number of sections of the loop that ended with an error.
    failed: usize,
}

pub(crate) async fn measure(only: Option<&str>) {
    let faults = FAULTS.iter().filter(|fault| {
        let name = fault.name();
        only.is_none_or(|only| name.contains(only))
    });
    let mut seen: Vec<(Fault, Vec<Outcome>)> = faults.map(|&fault| (fault, Vec::new())).collect();
    for round in 1..=rounds(10) {
        for (fault, outcomes) in &mut seen {
            let load = super::load();
            let outcome = run(*fault).await;
            let name = fault.name();
            println!("{round:>3} {name:<30} load {load}: {outcome:?}");
            outcomes.push(outcome);
        }
    }
    report(&seen);
}

fn report(seen: &[(Fault, Vec<Outcome>)]) {
    println!("\nmedian / worst, ms");
    println!(
        "| fault | runs | gap | until a server takes writes | until that is told | from then on | until the waiter is in | holds lost | sections failed |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for (fault, outcomes) in seen {
        let of = |time: fn(&Outcome) -> Duration| both(outcomes.iter().map(time));
        let followed = outcomes.iter().filter_map(|it| it.followed);
        let lost: usize = outcomes.iter().map(|it| it.lost).sum();
        let failed: usize = outcomes.iter().map(|it| it.failed).sum();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {lost} of {} | {failed} |",
            fault.name(),
            outcomes.len(),
            of(|it| it.gap),
            of(|it| it.served),
            of(|it| it.told),
            both(followed),
            of(|it| it.entered),
            outcomes.len() * HOLDS,
        );
    }
}

async fn run(fault: Fault) -> Outcome {
    let ground = Ground::start(fault).await;
    let [looping, holding, waiting] = three(&ground.locks()).await;
    let tag = ground.tag().await;
    let key = |name: &str| format!("{{{tag}}}:{name}");

    let mut holds = Vec::new();
    for number in 0..HOLDS {
        let lock = holding.lock(key(&format!("hold:{number}")));
        holds.push(lock.acquire().await.expect("a free lock"));
    }
    let turn = holding.lock(key("turn"));
    let turn = turn.acquire().await.expect("a free lock");
    let next = tokio::spawn(waiting.lock(key("turn")).acquire());
    eventually(PATIENCE, "the waiter is in the queue", async || {
        let info = holding
            .admin()
            .inspect(key("turn"))
            .await
            .expect("an answer");
        info.is_some_and(|info| info.waiting_processes == 1)
    })
    .await;
    let traffic = Traffic::start(&looping, key("section"));
    sleep(AROUND).await;
    ground.until_replicated().await;

    let struck = Instant::now();
    let releasing = tokio::spawn(async move {
        sleep(RELEASE).await;
        turn.release().await
    });
    let waited = tokio::spawn(async move {
        let next = within(PATIENCE, "the waiter enters", next).await;
        (Instant::now(), next.expect("no panic"))
    });
    ground.strike(fault, &tag).await;
    ground.until_served(fault).await;
    let served = Instant::now();
    ground.until_told(fault).await;
    let told = Instant::now();
    traffic.until_section_after(told).await;
    let (entered, next) = within(PATIENCE, "the waiter enters", waited).await.unwrap();
    // A later interruption belongs to the gap if it is longer, for example when the old primary is demoted.
    sleep(AROUND).await;

    let (sections, failed) = traffic.end().await;
    let (gap, end) = longest_gap(&sections, struck);
    // Each of these holds may have been lost, and then need not be released.
    let _ = next.expect("its turn").release().await;
    let _ = releasing.await;
    let mut lost = 0;
    for hold in holds {
        lost += usize::from(hold.release().await.is_err());
    }
    Outcome {
        gap,
        served: served - struck,
        told: told - struck,
        // A gap that began later, or ended earlier, has another reason.
        followed: (end - gap..=end).contains(&told).then(|| end - told),
        entered: entered - struck,
        lost,
        failed,
    }
}

/// The longest time between the beginnings of two sections, and when it ended. A gap that ended before the fault does
/// not count.
fn longest_gap(sections: &[Instant], struck: Instant) -> (Duration, Instant) {
    let pairs = sections.iter().zip(sections.iter().skip(1));
    let gaps = pairs.map(|(&before, &after)| (after - before, after));
    let gaps = gaps.filter(|(_, end)| *end > struck);
    gaps.max().expect("several sections")
}

/// The locks of three processes, from the view of the servers.
async fn three(builder: &LocksBuilder) -> [Locks; 3] {
    crate::support::processes(builder).await
}

//! A machine with a core for each process: what its servers and clients would do, from what one section costs them.
//!
//! A section is two requests to one of the servers, chosen by chance. Each request takes half of the section's time of its
//! client process, and then half of that of the server. A process does one thing at a time, in the order in which it comes;
//! the network takes no time. So this is an upper limit: nothing waits but for a core.

use std::{cmp::Reverse, collections::BinaryHeap};

/// CPU in µs per section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) client: f64,
    pub(crate) server: f64,
}

/// How many sections are simulated.
const SECTIONS: usize = 200_000;

/// When a task comes to its next process, in ns, and which task, and how many of the four steps of its section are done.
type Step = Reverse<(u64, usize, u8)>;

/// Sections per second of so many servers and client processes, each with so many tasks.
pub(crate) fn compute(costs: Costs, servers: usize, clients: usize, tasks: usize) -> f64 {
    let ns = |cost: f64| (cost / 2.0 * 1e3) as u64;
    let mut dice = fastrand::Rng::with_seed(1);
    // Until when each process is busy.
    let (mut client_busy, mut server_busy) = (vec![0; clients], vec![0; servers]);
    let mut chosen: Vec<_> = (0..clients * tasks)
        .map(|_| dice.usize(..servers))
        .collect();
    let mut steps: BinaryHeap<Step> = (0..chosen.len())
        .map(|task| Reverse((0, task, 0)))
        .collect();
    let (mut done, mut end) = (0, 0);
    while done < SECTIONS {
        let Some(Reverse((now, task, step))) = steps.pop() else {
            break;
        };
        let (busy, cost) = if step % 2 == 0 {
            (&mut client_busy[task % clients], costs.client)
        } else {
            (&mut server_busy[chosen[task]], costs.server)
        };
        *busy = now.max(*busy) + ns(cost);
        end = *busy;
        let next = (step + 1) % 4;
        if next == 0 {
            done += 1;
            chosen[task] = dice.usize(..servers);
        }
        steps.push(Reverse((end, task, next)));
    }
    SECTIONS as f64 / (end as f64 / 1e9)
}

//! A simulated machine with one core for each process: the throughput of its servers and clients, computed from the
//! cost of one section.
//!
//! A section is two requests to one of the servers, chosen by chance. Each request takes half of the section's time of its
//! client process, and then half of that of the server. A process handles all requests that have arrived, and only
//! then passes on the results. An event loop and a pipelined connection do the same. So a single client and a single
//! server wait for each other in turn. The network takes no time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

/// CPU in µs per section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) client: f64,
    pub(crate) server: f64,
}

/// How many sections are simulated.
const SECTIONS: usize = 200_000;

/// A caller, and how many of the four steps of its section are done.
#[derive(Clone, Copy, Debug)]
struct Task {
    client: usize,
    server: usize,
    steps: u8,
}

#[derive(Debug, Default)]
struct Process {
    /// The time for one step, in ns.
    cost: u64,
    /// The current batch.
    batch: Vec<Task>,
    /// The requests that have arrived in the meantime.
    next: Vec<Task>,
}

/// Sections per second for a number of servers and client processes, and a number of tasks in each process.
pub(crate) fn compute(costs: Costs, servers: usize, clients: usize, tasks: usize) -> f64 {
    let mut dice = fastrand::Rng::with_seed(1);
    let process = |cost: f64| Process {
        cost: (cost / 2.0 * 1e3) as u64,
        ..Process::default()
    };
    let of_clients = (0..clients).map(|_| process(costs.client));
    let of_servers = (0..servers).map(|_| process(costs.server));
    let mut processes: Vec<_> = of_clients.chain(of_servers).collect();
    // The time when each process finishes its batch.
    let mut ends = BinaryHeap::new();
    for (client, process) in processes.iter_mut().enumerate().take(clients) {
        for _ in 0..tasks {
            let server = clients + dice.usize(..servers);
            process.next.push(Task {
                client,
                server,
                steps: 0,
            });
        }
        begin(process, client, 0, &mut ends);
    }
    let (mut done, mut now) = (0, 0);
    while done < SECTIONS {
        let Some(Reverse((end, place))) = ends.pop() else {
            break;
        };
        now = end;
        for mut task in mem::take(&mut processes[place].batch) {
            task.steps += 1;
            if task.steps == 4 {
                done += 1;
                task.steps = 0;
                task.server = clients + dice.usize(..servers);
            }
            let to = if task.steps % 2 == 0 {
                task.client
            } else {
                task.server
            };
            processes[to].next.push(task);
        }
        // Only after all requests have arrived.
        for (place, process) in processes.iter_mut().enumerate() {
            begin(process, place, now, &mut ends);
        }
    }
    done as f64 / (now as f64 / 1e9)
}

/// Begins with the requests that have arrived, unless the process is busy.
fn begin(
    process: &mut Process,
    place: usize,
    now: u64,
    ends: &mut BinaryHeap<Reverse<(u64, usize)>>,
) {
    if process.batch.is_empty() && !process.next.is_empty() {
        process.batch = mem::take(&mut process.next);
        let time = process.cost * process.batch.len() as u64;
        ends.push(Reverse((now + time, place)));
    }
}

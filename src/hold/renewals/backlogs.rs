//! How many renewals are in flight at each server: a bound for each, and a backlog of those that are due beyond it.
//!
//! Without a bound, what falls due at once beyond what a process can send is late before it is sent, is sent once more,
//! and so keeps the rest from being sent. And a server that does not answer must not hold up the renewals at the others.

/// How many renewals of one runtime are in flight at one server: many enough to keep it busy over a distance of 10 ms,
/// and few enough for all to be answered within the response timeout.
const MOST: usize = 1_000;

/// How few of them are in flight when the next ones are sent: one by one they would cost a turn of the schedule each.
const REFILL: usize = 750;

/// The servers at which renewals are due or in flight. The index of a server is that of its backlog.
#[derive(Debug, Default)]
pub(super) struct Backlogs(Vec<AtServer>);

#[derive(Debug)]
struct AtServer {
    /// Tells it from other servers.
    server: usize,
    in_flight: usize,
}

impl Backlogs {
    /// The backlog of a server. One that nothing of another server is in may become it.
    pub(super) fn of(&mut self, server: usize, is_empty: impl Fn(usize) -> bool) -> usize {
        let known = self.0.iter().position(|at| at.server == server);
        let idle = || (0..self.0.len()).find(|&it| self.0[it].in_flight == 0 && is_empty(it));
        match known.or_else(idle) {
            Some(backlog) => {
                self.0[backlog].server = server;
                backlog
            }
            None => {
                self.0.push(AtServer {
                    server,
                    in_flight: 0,
                });
                self.0.len() - 1
            }
        }
    }

    pub(super) fn all(&self) -> std::ops::Range<usize> {
        0..self.0.len()
    }

    pub(super) fn has_room(&self, backlog: usize) -> bool {
        self.0.get(backlog).is_some_and(|at| at.in_flight < MOST)
    }

    pub(super) fn enter(&mut self, backlog: usize) {
        self.0[backlog].in_flight += 1;
    }

    /// Returns whether it is time to send the next ones.
    pub(super) fn leave(&mut self, backlog: usize) -> bool {
        self.0[backlog].in_flight -= 1;
        self.0[backlog].in_flight == REFILL
    }
}

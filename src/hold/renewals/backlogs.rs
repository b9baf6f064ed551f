//! The servers at which renewals are due, and how many requests are in flight at each of them.

/// The maximum number of requests of one runtime in flight at one server. Over a distance of 10 ms this allows for
/// 25,600 requests per second, and up to 32 times as many holds. Together they keep a server busy for about 10 ms,
/// which is how long another request may wait behind them.
pub(super) const MOST: usize = 256;

/// The number of requests in flight at which the next ones are sent. Sent one by one, each would cost a turn of the
/// schedule.
const REFILL: usize = 192;

/// The servers at which renewals are due or in flight. The index of a server is the index of its backlog.
///
/// Without a bound, a process might have more renewals due together than it can send. They would be late before they
/// are sent, would be sent once more, and so would keep the rest from being sent. A server that does not respond must
/// not delay the renewals at the others.
#[derive(Debug, Default)]
pub(super) struct Backlogs(Vec<AtServer>);

#[derive(Debug)]
struct AtServer {
    /// The number that distinguishes it from other servers.
    server: usize,
    in_flight: usize,
}

impl Backlogs {
    /// The backlog of a server. If the server has none yet, it gets one that contains nothing of another server.
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

    /// Removes a request that is no longer in flight. Returns whether it is time to send the next ones.
    pub(super) fn leave(&mut self, backlog: usize) -> bool {
        self.0[backlog].in_flight -= 1;
        self.0[backlog].in_flight == REFILL
    }
}

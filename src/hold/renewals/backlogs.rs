//! The servers at which renewals are due, and how many requests are in flight at each of them.

/// How many requests of one runtime are in flight at one server. Over a distance of 10 ms these are 25,600 in a second, and
/// up to 32 times as many holds. All together they keep a server busy for about 10 ms, and whatever else is sent to it waits
/// for so long.
pub(super) const MOST: usize = 256;

/// How few of them are in flight when the next ones are sent: one by one they would cost a turn of the schedule each.
const REFILL: usize = 192;

/// The servers at which renewals are due or in flight. The index of a server is the index of its backlog.
///
/// Without a bound, what falls due at once beyond what a process can send is late before it is sent, is sent once more,
/// and so keeps the rest from being sent. And a server that does not answer must not hold up the renewals at the others.
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

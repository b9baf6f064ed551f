//! The shell that executes the actions of the machine, and keeps records. It does the minimum.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::request::Request;
use super::store::Store;
use crate::base::error::{FailureClass, StoreError};
use crate::base::id::{HoldId, InboxId};
use crate::base::lease_times::deadline;
use crate::base::options::{Mode, QueueOptions};
use crate::queue::machine::{Action, Grant, HoldEnd, Input, RequestReply, WaitMachine};
use crate::store::{AcquireReply, ReleaseRequest, Residue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    Waits {
        asks_once: bool,
    },
    /// It has not claimed this hold.
    Granted(HoldId),
    Entered(HoldId),
    Gone,
}

/// The request in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) request: Request,
    pub(super) sent: Instant,
    pub(super) sent_generation: u64,
    pub(super) reply: Option<Vec<AcquireReply>>,
}

/// The state of a hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// The mode in which it has the lock, or wants it. It is shared from its request to share on.
    pub(super) mode: Mode,
    /// Whether the store may know of it, as far as this process has learned.
    pub(super) is_known: bool,
    /// Whether an acquire of it was never answered.
    pub(super) unanswered: bool,
    pub(super) releases: u32,
    pub(super) grant: Option<Grant>,
    /// Whether its lock was deleted.
    pub(super) is_lost: bool,
}

impl Record {
    pub(super) fn of(mode: Mode) -> Self {
        Self {
            mode,
            is_known: false,
            unanswered: false,
            releases: 0,
            grant: None,
            is_lost: false,
        }
    }

    /// Returns whether the lease that it was granted is still valid. It is not renewed here.
    fn is_valid(&self, now: Instant) -> bool {
        let lasts = |grant: Grant| now < grant.lease.deadline;
        self.grant.is_some_and(lasts) && !self.is_lost
    }
}

/// The machine, the store, and a shell between them.
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) queueing: QueueOptions,
    pub(super) inbox: InboxId,
    pub(super) machine: WaitMachine,
    pub(super) store: Store,
    pub(super) now: Instant,
    pub(super) generation: u64,
    pub(super) flight: Option<Flight>,
    /// The releases in flight.
    pub(super) releases: Vec<ReleaseRequest>,
    /// The requests without a response that may still be executed.
    pub(super) ghosts: Vec<Request>,
    /// The waiters in the order in which they joined.
    pub(super) callers: Vec<(HoldId, Caller)>,
    pub(super) records: BTreeMap<HoldId, Record>,
}

impl Shell {
    pub(super) fn new(queueing: QueueOptions) -> Self {
        let inbox = InboxId::new();
        Self {
            queueing,
            inbox,
            machine: WaitMachine::new(queueing),
            store: Store::new(inbox),
            now: Instant::now(),
            generation: 1,
            flight: None,
            releases: Vec::new(),
            ghosts: Vec::new(),
            callers: Vec::new(),
            records: BTreeMap::new(),
        }
    }

    // ---- callers ----

    pub(super) fn pick(
        &self,
        at: usize,
        fits: impl Fn(Caller) -> bool,
    ) -> Option<(HoldId, Caller)> {
        let callers = self.callers.iter().copied();
        let mut fitting: Vec<_> = callers.filter(|(_, caller)| fits(*caller)).collect();
        choose(&mut fitting, at)
    }

    pub(super) fn set(&mut self, waiter: HoldId, caller: Caller) {
        let mut callers = self.callers.iter_mut();
        callers.find(|(it, _)| *it == waiter).unwrap().1 = caller;
    }

    /// The waiter that joined first.
    pub(super) fn first(&self) -> Option<HoldId> {
        let mut callers = self.callers.iter();
        let first = callers.find(|(_, caller)| matches!(caller, Caller::Waits { .. }));
        first.map(|(waiter, _)| *waiter)
    }

    pub(super) fn release(&mut self, hold: HoldId) {
        let Record { grant, mode, .. } = self.records[&hold];
        let grant = grant.unwrap();
        self.send(HoldEnd {
            mode,
            hold,
            residue: Residue {
                unanswered: grant.unanswered,
                nested: false,
            },
            open: true,
            deadline: grant.lease.deadline,
            ttl: grant.lease.ttl,
            since: None,
            with_others: false,
        });
        self.step(Input::Release(hold));
    }

    fn send(&mut self, release: HoldEnd) {
        let record = self.records.get_mut(&release.hold).unwrap();
        record.releases += 1;
        assert_eq!(release.residue.unanswered, record.unanswered, "{release:?}");
        self.releases.push(ReleaseRequest {
            hold: release.hold,
            mode: release.mode,
            inbox: self.inbox,
            end: release.end(self.now),
            with_others: false,
        });
    }

    // ---- the request in flight ----

    pub(super) fn execute(&mut self) {
        let (store, now) = (&self.store, self.now);
        if let Some(Flight { request, reply, .. }) = &mut self.flight {
            reply.get_or_insert_with(|| store.execute(request, now));
        }
    }

    /// The request is answered, or fails in this way.
    pub(super) fn answer(&mut self, failure: Option<FailureClass>) {
        let Some(Flight {
            request,
            sent,
            sent_generation,
            reply,
        }) = self.flight.take()
        else {
            return;
        };
        let error = |class| StoreError::new("acquire", &Arc::from("the store"), class, "lost");
        let (waiters, has_entry) = (request.waiters(), request.has_entry());
        let replies = match failure {
            None => Ok(reply.unwrap().into()),
            Some(class) => {
                if class == FailureClass::OutcomeUnknown && reply.is_none() {
                    self.ghosts.push(request);
                }
                Err(error(class))
            }
        };
        let reply = RequestReply {
            sent,
            sent_generation,
            generation: self.generation,
            replies,
        };
        for (at, hold) in waiters.into_iter().enumerate() {
            self.note(hold, has_entry, &reply, at);
        }
        self.step(Input::Reply(reply));
    }

    /// Updates what the store may know of a hold.
    fn note(&mut self, hold: HoldId, has_entry: bool, reply: &RequestReply, at: usize) {
        let record = self.records.get_mut(&hold).unwrap();
        match reply.get(at) {
            Ok(AcquireReply::Held { lease, .. }) => {
                record.is_known = true;
                record.unanswered |=
                    deadline(reply.sent, lease, std::time::Duration::ZERO) <= self.now;
            }
            Ok(AcquireReply::Busy { .. }) => record.is_known |= has_entry,
            Err(error) if error.failure_class() == FailureClass::OutcomeUnknown => {
                (record.is_known, record.unanswered) = (true, true);
            }
            Ok(AcquireReply::Ended) => panic!("{hold} was asked for after its end"),
            Err(_) => {}
        }
    }

    pub(super) fn fly(&mut self, request: Request) {
        let flight = Flight {
            request,
            sent: self.now,
            sent_generation: self.generation,
            reply: None,
        };
        let other = self.flight.replace(flight);
        assert!(other.is_none(), "two requests in flight: {self:?}");
    }

    // ---- the machine ----

    pub(super) fn drive(&mut self) {
        if self.machine.due().is_some_and(|due| due <= self.now) {
            self.step(Input::Due);
            let due = self.machine.due();
            assert!(due.is_none_or(|due| self.now < due), "{self:?}");
        }
    }

    pub(super) fn step(&mut self, input: Input) {
        let mut actions = self.machine.step(input, self.now);
        // A waiter that is rejected is ended before it is notified.
        actions.sort_by_key(|action| !matches!(action, Action::Deny(..)));
        let mut given_back = Vec::new();
        for action in actions {
            given_back.extend(self.perform(action));
        }
        self.check();
        for hold in given_back {
            self.release(hold);
        }
    }

    /// Returns a hold that is released.
    pub(super) fn perform(&mut self, action: Action) -> Option<HoldId> {
        match action {
            Action::Send(spec, _) if spec.mode == Mode::Exclusive => {
                assert_eq!(Some(spec.request.hold), self.first());
                self.fly(Request::Acquire(spec.request));
            }
            Action::Send(spec, holds) => {
                let request = spec.share(holds);
                assert!(request.holds.len() <= 16, "{request:?}");
                let waits = |caller: &Caller| matches!(caller, Caller::Waits { .. });
                let waiting = self.callers.iter().filter(|(_, caller)| waits(caller));
                let first = waiting.map(|(waiter, _)| *waiter).take(request.holds.len());
                assert!(first.eq(request.holds.iter().copied()), "{request:?}");
                self.fly(Request::Share(request));
            }
            Action::Release(release) => self.send(release),
            Action::Grant(grant) => {
                let waiter = grant.hold;
                self.may_enter(waiter);
                assert!(self.now < grant.lease.deadline);
                assert_eq!(grant.mode, self.records[&waiter].mode);
                self.records.get_mut(&waiter).unwrap().grant = Some(grant);
                self.set(waiter, Caller::Granted(waiter));
            }
            Action::Deny(waiter, _) => {
                let waits = |caller| matches!(caller, Caller::Waits { .. });
                let mut callers = self.callers.iter();
                assert!(callers.any(|(it, caller)| *it == waiter && waits(*caller)));
                self.set(waiter, Caller::Gone);
            }
            Action::PassOver(waiter) => {
                let caller = self.callers.iter().find(|(it, _)| *it == waiter);
                let Some((_, Caller::Granted(hold))) = caller.copied() else {
                    panic!("{waiter} has nothing to be taken back: {self:?}");
                };
                self.set(waiter, Caller::Gone);
                return Some(hold);
            }
        }
        None
    }

    /// A writer must be the first that waits, and must enter alone. A reader may overtake only readers, and must enter
    /// among readers.
    fn may_enter(&self, waiter: HoldId) {
        let mode = |hold: &HoldId| self.records[hold].mode;
        let is_reader = |hold: &HoldId| mode(hold) == Mode::Shared;
        for (other, caller) in &self.callers {
            match caller {
                Caller::Waits { .. } if *other == waiter => break,
                Caller::Waits { .. } => {
                    assert!(is_reader(other) && is_reader(&waiter), "{self:?}");
                }
                _ => {}
            }
        }
        for (_, caller) in &self.callers {
            if let Caller::Granted(hold) | Caller::Entered(hold) = caller
                && self.records[hold].is_valid(self.now)
            {
                assert!(
                    is_reader(hold) && is_reader(&waiter),
                    "{waiter} and {hold} are inside: {self:?}"
                );
            }
        }
    }

    /// The properties that hold after every step.
    pub(super) fn check(&self) {
        let count = |fits: fn(&Caller) -> bool| {
            let callers = self.callers.iter();
            callers.filter(|(_, caller)| fits(caller)).count()
        };
        let waiting = count(|caller| matches!(caller, Caller::Waits { .. }));
        let unclaimed = count(|caller| matches!(caller, Caller::Granted(_)));
        let hasty = count(|caller| matches!(caller, Caller::Waits { asks_once: true }));
        let in_flight = self.flight.is_some();
        assert_eq!(self.machine.len(), waiting);
        assert!(self.machine.is_consistent(), "{self:?}");
        // Something is going to happen.
        assert!(
            waiting == 0 || in_flight || self.machine.due().is_some(),
            "{self:?}"
        );
        assert!(unclaimed == 0 || self.machine.due().is_some(), "{self:?}");
        let is_active = waiting > 0 || unclaimed > 0 || in_flight;
        assert_eq!(self.machine.is_active(), is_active, "{self:?}");
        // Waiters that make only one attempt wait for a request.
        assert!(hasty == 0 || in_flight, "{self:?}");
    }
}

/// Removes one of them, if there is any.
pub(super) fn choose<T>(from: &mut Vec<T>, at: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.remove(at % from.len()))
}

//! The line of one key: who holds the lock in this process, and who waits for it.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};

use super::{Entering, attempt::Heard, waiter::Waiter};
use crate::base::id::HoldId;

/// Those who want one key, in the order in which they came. It ends when the last of them has left
/// and nobody holds the lock.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiters: VecDeque<Arc<Waiter>>,
    /// The hold of this process that has the lock, or is about to get it from another one.
    holder: Option<HoldId>,
    /// Until when it counts as the holder, unless something keeps its lease.
    until: Option<Instant>,
    /// What the store told last about the lock, whichever waiter had asked.
    heard: Heard,
    /// How many times in a row the lock has gone from one of this process to the next.
    handoffs: u32,
    pulse: Option<Arc<Pulse>>,
    /// Whether a driver task asks for the first waiter.
    driven: bool,
    /// What is to be given once the line is let go of.
    signals: Vec<Signal>,
}

/// Whom a change of a line concerns.
#[derive(Debug)]
pub(super) enum Signal {
    Kick(Arc<Pulse>),
    Hurry(Arc<Pulse>),
    Nudge(Arc<Waiter>),
}

impl Signal {
    pub(super) fn give(self) {
        match self {
            Self::Kick(pulse) => pulse.kick.notify_one(),
            Self::Hurry(pulse) => pulse.hurry.notify_one(),
            Self::Nudge(waiter) => waiter.nudge(),
        }
    }
}

/// What passes between a line and its driver. Tells a line from the next one of its key, too.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// The lock may be free, or the first waiter has left, or the line has ended.
    pub(super) kick: Notify,
    /// Somebody stands first who asks more often than the one before.
    pub(super) hurry: Notify,
    /// How many turns the driver has made.
    turns: AtomicU64,
}

impl Pulse {
    pub(super) fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn is_over(&self) -> bool {
        self.waiters.is_empty() && self.holder.is_none()
    }

    pub(super) fn first(&self) -> Option<&Arc<Waiter>> {
        self.waiters.front()
    }

    pub(super) fn find(&self, hold: HoldId) -> Option<Arc<Waiter>> {
        let found = self.waiters.iter().find(|waiter| waiter.hold() == hold);
        found.cloned()
    }

    /// Puts a waiter at the end. Answers whether nobody stands before it.
    pub(super) fn join(&mut self, waiter: &Arc<Waiter>) -> bool {
        self.waiters.push_back(Arc::clone(waiter));
        self.waiters.len() == 1
    }

    /// Takes a waiter out, if it is there. Answers where it stood.
    pub(super) fn remove(&mut self, waiter: &Waiter) -> Option<usize> {
        let is_it = |other: &Arc<Waiter>| std::ptr::eq(Arc::as_ptr(other), waiter);
        let at = self.waiters.iter().position(is_it)?;
        drop(self.waiters.remove(at));
        let (next, pulse) = (self.waiters.front(), &self.pulse);
        if at == 0 && next.is_some_and(|next| next.claim().ttl < waiter.claim().ttl) {
            let hurry = pulse.iter().cloned().map(Signal::Hurry);
            self.signals.extend(hurry);
        }
        if self.waiters.is_empty() {
            // The driver's work ends here and not when it notices: its runtime may stand still, and
            // whoever comes next must not wait for it.
            self.kick();
            self.pulse = None;
            self.driven = false;
            self.waiters = VecDeque::new();
        }
        Some(at)
    }

    pub(super) fn holder(&self) -> Option<HoldId> {
        self.holder
    }

    pub(super) fn handoffs(&self) -> u32 {
        self.handoffs
    }

    /// The hold has the lock from now on.
    pub(super) fn hold(&mut self, hold: HoldId, how: Entering, until: Option<Instant>) {
        self.holder = Some(hold);
        self.until = until;
        self.heard = Heard::Busy;
        self.handoffs = match how {
            Entering::Afresh => 0,
            Entering::HandedOver(count) => count,
        };
    }

    pub(super) fn heard(&self) -> &Heard {
        &self.heard
    }

    pub(super) fn hear(&mut self, heard: Heard) {
        self.heard = heard;
    }

    /// The hold counts as the holder until then, or for as long as its watchdog keeps it.
    pub(super) fn counts_until(&mut self, hold: HoldId, until: Option<Instant>) {
        if self.holder == Some(hold) {
            self.until = until;
        }
    }

    /// Whether somebody in this process may still have the lock.
    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some() && self.until.is_none_or(|until| Instant::now() < until)
    }

    /// The hold has the lock no longer, and `next` is about to get it.
    pub(super) fn pass(&mut self, hold: HoldId, next: Option<HoldId>) {
        if self.holder == Some(hold) {
            self.holder = next;
        }
    }

    pub(super) fn kick(&mut self) {
        if !self.waiters.is_empty() || self.driven {
            let pulse = Arc::clone(self.pulse.get_or_insert_default());
            self.signals.push(Signal::Kick(pulse));
        }
    }

    pub(super) fn take_signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }

    pub(super) fn has(&self, pulse: &Arc<Pulse>) -> bool {
        let present = self.pulse.as_ref();
        present.is_some_and(|present| Arc::ptr_eq(present, pulse))
    }

    /// The pulse for a new driver, unless the line has one.
    pub(super) fn drive(&mut self) -> Option<Arc<Pulse>> {
        if self.driven || self.waiters.is_empty() {
            return None;
        }
        self.driven = true;
        Some(Arc::clone(self.pulse.get_or_insert_default()))
    }

    pub(super) fn relieve(&mut self, seen: Option<u64>) -> Option<u64> {
        let pulse = self.pulse.as_ref().filter(|_| self.driven)?;
        let turns = pulse.turns.load(Ordering::Relaxed);
        if seen == Some(turns) {
            self.driven = false;
            self.pulse = None;
            return None;
        }
        Some(turns)
    }

    pub(super) fn abandon(&mut self, pulse: &Arc<Pulse>) {
        if self.has(pulse) {
            self.driven = false;
            let nudges = self.waiters.iter().cloned().map(Signal::Nudge);
            self.signals.extend(nudges);
        }
    }
}

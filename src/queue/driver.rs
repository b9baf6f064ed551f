//! The task that sends the requests for the first waiter of a local queue, and takes back the grants that its callers
//! do not claim.

use std::future::pending;
use std::sync::Arc;

use tokio::runtime::{self, Handle};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::callers::Caller;
use super::effects::Effects;
use super::holder_lookup::{Look, look};
use super::lines::{Driven, Line};
use super::local_queues::LocalQueues;
use super::request::Flight;
use super::step::Input;
use crate::base::key::LockKey;
use crate::base::timer::sleep_until;

/// Starts a driver for the local queue, if there is work for one and the queue has none. The driver runs on the current
/// runtime, or otherwise on `runtime`.
pub(super) fn start(queues: &Arc<LocalQueues>, key: &LockKey, runtime: Option<&Handle>) {
    let present = Handle::try_current().ok();
    let Some(runtime) = present.as_ref().or(runtime) else {
        return;
    };
    let signal = {
        let mut lines = queues.lines.lock();
        let line = lines.line(key);
        let idle = |line: &&mut Line| line.driver.is_none() && line.queue.is_active();
        line.filter(idle).map(|line| {
            let signal = Arc::<Notify>::default();
            line.driver = Some(Driven {
                signal: Arc::clone(&signal),
                sleeps_until: None,
            });
            signal
        })
    };
    if let Some(signal) = signal {
        queues.activity().begin();
        let driver = Driver {
            queues: Arc::clone(queues),
            key: key.clone(),
            signal,
            runtime: runtime.id(),
            has_begun: false,
        };
        drop(runtime.spawn(driver.run()));
    }
}

struct Driver {
    queues: Arc<LocalQueues>,
    key: LockKey,
    signal: Arc<Notify>,
    runtime: runtime::Id,
    has_begun: bool,
}

/// The events that a driver waits for.
struct Turn {
    flight: Option<Flight>,
    looking: Option<Look>,
    due: Option<Instant>,
}

impl Driver {
    /// Runs until the local queue has no more work for it.
    async fn run(mut self) {
        self.has_begun = true;
        while let Some(Turn {
            flight,
            looking,
            due,
        }) = self.turn()
        {
            let answered = async {
                match flight {
                    Some(flight) => flight.await,
                    None => pending().await,
                }
            };
            let has_looked = async {
                match looking {
                    Some(looking) => drop(looking.await),
                    None => pending().await,
                }
            };
            let is_due = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            select! {
                biased;
                () = self.signal.notified() => {}
                () = answered => {}
                () = has_looked => {}
                () = is_due => {}
            }
        }
    }

    /// Does what is due.
    fn turn(&self) -> Option<Turn> {
        let Self {
            queues,
            key,
            signal,
            ..
        } = self;
        let listens = queues.listen();
        let mut effects = Effects::default();
        let turn = queues.change(key, &mut effects, |line, effects| {
            is_driven(line, signal).then_some(())?;
            queues.step(key, line, Input::Listening(listens), effects);
            let now = Instant::now();
            if line.queue.due().is_some_and(|due| due <= now) {
                queues.step(key, line, Input::Due, effects);
            }
            if line.take_in_look(now, queues.queueing.heartbeat, effects) {
                line.looking = Some(look(queues.store(), key));
            }
            let due = line.due();
            line.driver.as_mut()?.sleeps_until = due;
            Some(Turn {
                flight: line.flight.clone(),
                looking: line.looking.clone(),
                due,
            })
        });
        // The signal would wake this driver, which already has the turn.
        effects.signal = None;
        queues.apply(key, effects, None);
        turn.flatten()
    }
}

/// Reports that the runtime of the driver has ended, or its work has. If it is the runtime, the callers are woken, and
/// one of them starts another driver.
impl Drop for Driver {
    fn drop(&mut self) {
        let mut effects = Effects::default();
        self.queues
            .change(&self.key, &mut effects, |line, effects| {
                if is_driven(line, &self.signal) {
                    line.driver = None;
                    // Callers on a runtime that accepts no new task could not start another driver either.
                    let can_start =
                        |caller: &Caller| self.has_begun || caller.runtime != Some(self.runtime);
                    let wakers = line.callers.wakers(can_start);
                    effects.wakers.extend(wakers);
                }
            });
        self.queues.apply(&self.key, effects, None);
        self.queues.desert(&self.key);
        self.queues.activity().end();
    }
}

fn is_driven(line: &Line, signal: &Arc<Notify>) -> bool {
    let driver = line.driver.as_ref();
    driver.is_some_and(|driver| Arc::ptr_eq(&driver.signal, signal))
}

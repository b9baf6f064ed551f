//! The task that sends the requests for the waiters of a local queue, one after the other, watches the time, and takes
//! back the grants that callers do not claim. So no request depends on a caller that is not polled.

use std::future::pending;
use std::sync::Arc;
use std::task::Waker;

use tokio::runtime::{self, Handle};
use tokio::select;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::callers::Caller;
use super::holder_lookup::{Look, look};
use super::line::{Line, NextRequest};
use super::local_queues::LocalQueues;
use super::request::Acquiring;
use super::step::Input;
use crate::base::key::LockKey;
use crate::base::timer::sleep_until;

struct Driver {
    queues: Arc<LocalQueues>,
    key: LockKey,
    signal: Arc<Notify>,
    runtime: runtime::Id,
    has_begun: bool,
    /// The request in flight.
    asking: Option<Acquiring>,
}

/// The work of a driver until the next event.
struct Turn {
    request: Option<NextRequest>,
    needs_look: bool,
    due: Option<Instant>,
}

impl LocalQueues {
    /// Starts the driver of a local queue, which this signal wakes.
    pub(super) fn start_driver(
        self: &Arc<Self>,
        key: &LockKey,
        signal: Arc<Notify>,
        runtime: &Handle,
    ) {
        self.in_flight().begin();
        let driver = Driver {
            queues: Arc::clone(self),
            key: key.clone(),
            signal,
            runtime: runtime.id(),
            has_begun: false,
            asking: None,
        };
        drop(runtime.spawn(driver.run()));
    }
}

impl Driver {
    /// Runs until the local queue has no more work for it.
    async fn run(mut self) {
        self.has_begun = true;
        let mut looking: Option<Look> = None;
        while let Some(Turn {
            request,
            needs_look,
            due,
        }) = self.turn()
        {
            let Self {
                queues,
                key,
                signal,
                asking,
                ..
            } = &mut self;
            if let Some(request) = request {
                *asking = Some(match request {
                    NextRequest::New(ask) => queues.requests.ask(key, ask),
                    NextRequest::Sent(acquiring) => acquiring,
                });
            }
            if needs_look {
                looking = Some(look(queues.store(), key));
            }
            let answered = async {
                match asking.as_mut() {
                    Some(asking) => queues.requests.acquired(key, asking).await,
                    None => pending().await,
                }
            };
            let has_looked = async {
                match &mut looking {
                    Some(looking) => looking.await,
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
                () = signal.notified() => {}
                answer = answered => {
                    *asking = None;
                    queues.input(key, Input::Answered(answer));
                }
                seen = has_looked => {
                    looking = None;
                    queues.on_line(key, None, |line, _| line.see(seen, Instant::now()));
                }
                () = is_due => {}
            }
        }
    }

    /// Does what is due. Returns `None` if the local queue has no more work for this driver.
    fn turn(&self) -> Option<Turn> {
        let queues = &self.queues;
        let listens = queues.listen();
        let turn = queues.on_line(&self.key, None, |line, effects| {
            is_driven(line, &self.signal).then_some(())?;
            queues.step(line, Input::Listening(listens), effects);
            let now = Instant::now();
            if line.queue.due().is_some_and(|due| due <= now) {
                queues.step(line, Input::Due, effects);
            }
            let needs_look = line.needs_look(now, queues.queueing.heartbeat, effects);
            Some(Turn {
                request: line.request.take(),
                needs_look,
                due: line.sleep(needs_look),
            })
        });
        turn.flatten()
    }
}

/// Reports that the runtime of the driver has ended, or its work has. If it is the runtime, the request has no answer,
/// and one of the callers starts another driver.
impl Drop for Driver {
    fn drop(&mut self) {
        let queues = &self.queues;
        if self.asking.take().is_some() {
            let answer = queues.no_answer(&self.key);
            queues.input(&self.key, Input::Answered(answer));
        }
        let wakers = {
            let mut lines = queues.lines.lock();
            let line = lines.line(&self.key);
            line.filter(|line| is_driven(line, &self.signal))
                .map(|line| {
                    line.driver = None;
                    // Callers on a runtime that accepts no new task could not start another driver either.
                    let can_start =
                        |caller: &Caller| self.has_begun || caller.runtime != Some(self.runtime);
                    line.callers.wakers(can_start)
                })
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
        queues.in_flight().end();
    }
}

fn is_driven(line: &Line, signal: &Arc<Notify>) -> bool {
    let driver = line.driver.as_ref();
    driver.is_some_and(|driver| Arc::ptr_eq(&driver.signal, signal))
}

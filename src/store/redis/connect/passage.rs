//! The way in which a request gets its connection: normally immediately, and after a failure when the server is tried
//! again.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::Value;
use tokio::select;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Connector;
use super::connection::{Cause, Connection, Fault};
use crate::base::error::{Effect, StoreError};
use crate::base::timer::sleep_until;
use crate::store::redis::link::abort_on_drop::AbortOnDrop;
use crate::store::redis::link::breaker::{News, Pass, Step};
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::failure::{RUNTIME_ENDED, aborted, refuses_all, refuses_to_write};

/// The right to send one request over a connection. Its outcome informs the breaker about the server.
#[derive(Clone)]
pub(crate) struct Passage {
    pub(crate) connection: Arc<Connection>,
    pass: Pass,
    /// The trial, if the request is sent alone.
    pub(super) trial: Option<Arc<Trial>>,
}

/// A request that is sent alone. When it is dropped, the next request may be sent.
pub(super) struct Trial {
    connector: Arc<Connector>,
    pass: Pass,
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.connector.tell(self.pass, News::Dropped);
    }
}

impl Connector {
    /// A passage, if there is a connection and all requests may be sent.
    pub(crate) fn open_passage(&self) -> Option<Passage> {
        let losses = self.losses.load(Relaxed);
        let state = self.state.lock();
        Some(Passage {
            pass: state.breaker.flowing()?,
            connection: Arc::clone(state.present(losses)?),
            trial: None,
        })
    }

    /// Waits for a passage. After a failure a request waits for the next attempt, and shares its failure.
    pub(crate) async fn passage(self: &Arc<Self>) -> Result<Passage, StoreError> {
        match self.open_passage() {
            Some(passage) => Ok(passage),
            // This is rare, and larger than the rest of a request.
            None => Box::pin(self.another_passage()).await,
        }
    }

    async fn another_passage(self: &Arc<Self>) -> Result<Passage, StoreError> {
        let before = self.state.lock().breaker.failures();
        let mut news = self.news.subscribe();
        loop {
            // From here on no news is missed.
            news.borrow_and_update();
            let step = {
                let breaker = &self.state.lock().breaker;
                if let Some(error) = breaker.failed_since(before) {
                    return Err(error.clone());
                }
                breaker.step(Instant::now())
            };
            let (Step::Go(pass) | Step::Try(pass)) = step else {
                wait(&mut news, step).await;
                continue;
            };
            let connection = self.connected().await;
            let connection = connection.inspect_err(|error| {
                self.tell(pass, News::Failed(error.clone()));
            })?;
            // The request that gave the connection up has already informed the breaker.
            let Some(connection) = connection else {
                continue;
            };
            // A connection that was lost in the meantime is used too: then the request fails.
            if let Some((pass, trial)) = self.pass(pass) {
                return Ok(Passage {
                    connection,
                    pass,
                    trial,
                });
            }
        }
    }

    /// Lets a request be sent that now has a connection: with others, or alone if it is the first one. `None` if it is
    /// too late for that.
    fn pass(self: &Arc<Self>, pass: Pass) -> Option<(Pass, Option<Arc<Trial>>)> {
        let timeouts = self.common.timeouts;
        let limit = timeouts.connect.saturating_add(timeouts.response);
        let breaker = &mut self.state.lock().breaker;
        if let Some(pass) = breaker.flowing() {
            return Some((pass, None));
        }
        let pass = breaker.begin_trial(pass, Instant::now(), limit)?;
        let connector = Arc::clone(self);
        Some((pass, Some(Arc::new(Trial { connector, pass }))))
    }

    /// Sends a call over a passage. Gives the connection up if the outcome requires it.
    pub(crate) async fn send(
        self: &Arc<Self>,
        passage: &Passage,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Cause> {
        let asked = match passage.trial {
            None => {
                let asked = self.try_ask(&passage.connection, call, way, limit).await;
                self.heed(passage, call.only_reads(), asked.as_ref().map(drop));
                asked
            }
            // This is rare, and larger than the rest of a request.
            Some(_) => Box::pin(self.send_alone(passage, call, way, limit)).await,
        };
        asked.map_err(|fault| fault.cause)
    }

    /// Sends a call in a task, so that the requests that wait learn its outcome even if the caller is not polled.
    async fn send_alone(
        self: &Arc<Self>,
        passage: &Passage,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Fault> {
        let (connector, passage, call) = (Arc::clone(self), passage.clone(), call.clone());
        let sending = tokio::spawn(async move {
            let asking = connector.try_ask(&passage.connection, &call, way, limit);
            let asked = asking.await;
            connector.heed(&passage, call.only_reads(), asked.as_ref().map(drop));
            asked
        });
        let _ends_with_caller = AbortOnDrop::new(&sending);
        sending.await.unwrap_or_else(|_ended| {
            Err(Fault {
                cause: Cause::Driver(aborted(RUNTIME_ENDED)),
                is_done: false,
            })
        })
    }

    /// Informs the breaker about the outcome of a request.
    pub(super) fn heed(&self, passage: &Passage, only_reads: bool, asked: Result<(), &Fault>) {
        let is_trial = passage.trial.is_some();
        let answered = || News::Answered { only_reads };
        let Fault { cause, is_done } = match asked {
            Err(fault) => fault,
            Ok(_) if is_trial => return self.tell(passage.pass, answered()),
            Ok(_) => return,
        };
        let error = || {
            let endpoint = &passage.connection.endpoint;
            StoreError::new("connect", endpoint, Effect::None, cause.to_string())
        };
        let news = match cause {
            Cause::Late => return,
            Cause::Driver(refusal) if refuses_to_write(refusal) => News::ReadOnly(error()),
            Cause::Driver(refusal) if refuses_all(refusal) => News::Failed(error()),
            _ if *is_done => News::Lost(error()),
            Cause::Silence(_) if is_trial => News::Failed(error()),
            Cause::Driver(_) if is_trial => answered(),
            Cause::Silence(_) | Cause::Driver(_) => return,
        };
        self.tell(passage.pass, news);
    }

    /// Informs the breaker, and wakes the requests that wait if they must do something else now.
    fn tell(&self, pass: Pass, news: News) {
        let is_news = self.state.lock().breaker.hear(pass, news, Instant::now());
        if is_news {
            self.news.send_replace(());
        }
    }
}

/// Waits until the time of a step, or until there is news.
async fn wait(news: &mut watch::Receiver<()>, step: Step) {
    let Step::Wait(until) = step else {
        return;
    };
    select! {
        biased;
        // The sender outlives this future.
        _ = news.changed() => {}
        () = sleep_until(until) => {}
    }
}

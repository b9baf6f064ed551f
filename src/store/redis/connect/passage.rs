//! How a request comes by its connection: at once while all is well, else when the server is tried again.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use deadpool_redis::redis::Value;
use tokio::{select, time::Instant};

use super::{
    super::{
        call::{Call, Way},
        connection::{Cause, Connection, Fault},
        failure,
    },
    Connector,
    breaker::{Breaker, Pass, Step},
};
use crate::base::{
    error::{Effect, StoreError},
    timer::sleep_until,
};

/// A connection for one request, the outcome of which tells how the server is.
pub(in crate::store::redis) struct Passage {
    pub(in crate::store::redis) connection: Arc<Connection>,
    pass: Pass,
    _trial: Option<Trial>,
}

/// A request that tries a server. The next one does when it is dropped.
struct Trial {
    connector: Arc<Connector>,
    pass: Pass,
}

impl Drop for Trial {
    fn drop(&mut self) {
        let pass = self.pass;
        self.connector
            .tell(|breaker, now| breaker.dropped(pass, now));
    }
}

impl Connector {
    /// A passage, if there is a connection and requests flow.
    pub(in crate::store::redis) fn open_passage(&self) -> Option<Passage> {
        let losses = self.losses.load(Relaxed);
        let state = self.state.lock();
        Some(Passage {
            pass: state.breaker.flowing()?,
            connection: Arc::clone(state.present(losses)?),
            _trial: None,
        })
    }

    /// A passage, which may have to be waited for. A request that comes after a failure waits for the next attempt, and
    /// fails with it.
    pub(in crate::store::redis) async fn passage(self: &Arc<Self>) -> Result<Passage, StoreError> {
        match self.open_passage() {
            Some(passage) => Ok(passage),
            // Rare, and more than the rest of a request.
            None => Box::pin(self.another_passage()).await,
        }
    }

    async fn another_passage(self: &Arc<Self>) -> Result<Passage, StoreError> {
        let pass = self.pass().await?;
        let trial = pass.is_trial.then(|| Trial {
            connector: Arc::clone(self),
            pass,
        });
        let connection = self.connection().await;
        let connection = connection.inspect_err(|error| {
            self.tell(|breaker, now| breaker.failed(pass, error.clone(), now));
        })?;
        Ok(Passage {
            connection,
            pass,
            _trial: trial,
        })
    }

    async fn pass(&self) -> Result<Pass, StoreError> {
        let timeouts = self.common.timeouts;
        let limit = timeouts.connect.saturating_add(timeouts.response);
        let (mut failures, mut news) = (None, None);
        loop {
            let (until, news) = {
                let mut state = self.state.lock();
                let breaker = &mut state.breaker;
                let before = *failures.get_or_insert(breaker.failures());
                if let Some(error) = breaker.failed_since(before) {
                    return Err(error.clone());
                }
                match breaker.step(Instant::now(), limit) {
                    Step::Go(pass) => return Ok(pass),
                    // From here on no news is missed.
                    Step::Wait(until) => (until, news.get_or_insert_with(|| self.news.subscribe())),
                }
            };
            select! {
                biased;
                // The sender lives as long as this.
                _ = news.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Sends a call over a passage. The connection is given up where the answer says so.
    pub(in crate::store::redis) async fn send(
        &self,
        passage: &Passage,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Cause> {
        let asked = self.try_ask(&passage.connection, call, way, limit).await;
        self.heed(passage, &asked);
        asked.map_err(|fault| fault.cause)
    }

    /// What has become of a request tells others whether to go out.
    fn heed(&self, passage: &Passage, asked: &Result<Value, Fault>) {
        let pass = passage.pass;
        let Fault { cause, is_done } = match asked {
            Err(fault) => fault,
            Ok(_) if !pass.is_trial => return,
            Ok(_) => return self.tell(|breaker, now| breaker.answered(pass, now)),
        };
        let error = || {
            let endpoint = &passage.connection.endpoint;
            StoreError::new("connect", endpoint, Effect::None, cause.to_string())
        };
        match cause {
            Cause::Late => {}
            Cause::Driver(refusal) if failure::refuses_all(refusal) => {
                self.tell(|breaker, now| breaker.failed(pass, error(), now));
            }
            _ if *is_done => self.tell(|breaker, now| breaker.lost(pass, error(), now)),
            Cause::Silence(_) if pass.is_trial => {
                self.tell(|breaker, now| breaker.failed(pass, error(), now));
            }
            Cause::Driver(_) if pass.is_trial => {
                self.tell(|breaker, now| breaker.answered(pass, now));
            }
            Cause::Silence(_) | Cause::Driver(_) => {}
        }
    }

    /// Changes whether requests go out, and wakes those that wait for that.
    fn tell(&self, change: impl FnOnce(&mut Breaker, Instant)) {
        let now = Instant::now();
        change(&mut self.state.lock().breaker, now);
        self.news.send_replace(());
    }
}

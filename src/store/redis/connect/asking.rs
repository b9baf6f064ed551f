//! The sending of a question over a connection: alone, or together with others that are in flight.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Connector;
use super::connection::Connection;
use super::outcome::{Cause, Fault};
use crate::base::error::{Effect, Mistake, StoreError};
use crate::store::redis::wire::call::{Call, Way};
use crate::store::redis::wire::failure::{self, OneOfCluster};
use crate::store::redis::wire::question::Question;

/// The result of a question that was sent with others.
pub(crate) enum Together {
    Replied(Value),
    /// Nothing was executed. The question must be sent alone, within this time.
    Alone {
        within: Duration,
    },
}

impl Connector {
    /// Sends a question to the only server of the store.
    pub(crate) async fn run<Q: Question>(
        self: &Arc<Self>,
        question: &Q,
    ) -> Result<Q::Reply, StoreError> {
        let connection = self.connection().await?;
        let within = match self.send_together(&connection, question).await {
            Ok(Together::Replied(reply)) => return connection.read(question, reply),
            Ok(Together::Alone { within }) => within,
            Err(cause) => return Err(connection.failed(question.verb(), cause)),
        };
        let call = question.call();
        match self.send(&connection, &call, Way::Plain, within).await {
            Ok(reply) => connection.read(question, reply),
            // No other server is asked here, so waiting is useless.
            Err(Cause::Driver(error)) if failure::leads_elsewhere(&error) => {
                let error = connection.error(call.verb(), Effect::Refused, OneOfCluster(error));
                Err(error.with_mistake(Some(Mistake::Other)))
            }
            Err(cause) => Err(connection.failed(call.verb(), cause)),
        }
    }

    /// Sends a question with the others that are in flight, if it may travel with them.
    pub(crate) async fn send_together(
        &self,
        connection: &Connection,
        question: &impl Question,
    ) -> Result<Together, Cause> {
        let within = self.common.timeouts.response;
        let batches = connection.batches.as_ref();
        let batches = batches.filter(|_| question.goes_with_others() || self.is_busy());
        let Some(((batches, _), short)) = batches.and_then(|it| Some((it, question.short()?)))
        else {
            return Ok(Together::Alone { within });
        };
        let sent = Instant::now();
        let asked = connection.ask_together(batches, short).await;
        Ok(match asked.map_err(|fault| self.met(connection, fault))? {
            Some(reply) => Together::Replied(reply),
            None => Together::Alone {
                within: within.saturating_sub(sent.elapsed()),
            },
        })
    }

    /// Sends a call.
    pub(crate) async fn send(
        &self,
        connection: &Connection,
        call: &Call,
        way: Way,
        limit: Duration,
    ) -> Result<Value, Cause> {
        let asked = connection.ask(call, way, limit).await;
        asked.map_err(|fault| self.met(connection, fault))
    }

    /// Gives the connection up if a fault requires it.
    fn met(&self, connection: &Connection, fault: Fault) -> Cause {
        if let Cause::Driver(error) = &fault.cause
            && failure::condition(error) == Some("NOREPLICAS")
        {
            self.source.doubt();
        }
        if fault.is_done {
            if let Cause::Driver(error) = &fault.cause
                && failure::refuses_to_write(error)
            {
                self.state.lock().needs_primary = true;
            }
            self.give_up(connection.number);
        }
        fault.cause
    }
}

//! The sending of a question over a connection: alone, or together with others that are in flight.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::Connector;
use super::connection::Cause;
use super::passage::Passage;
use crate::base::error::{Effect, Mistake, StoreError};
use crate::store::redis::wire::call::Way;
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
        let passage = self.passage().await?;
        let connection = &passage.connection;
        let within = match self.send_together(&passage, question).await {
            Ok(Together::Replied(reply)) => return connection.read(question, reply),
            Ok(Together::Alone { within }) => within,
            Err(cause) => return Err(connection.failed(question.verb(), cause)),
        };
        self.run_alone(&passage, question, within).await
    }

    async fn run_alone<Q: Question>(
        self: &Arc<Self>,
        passage: &Passage,
        question: &Q,
        within: Duration,
    ) -> Result<Q::Reply, StoreError> {
        let connection = &passage.connection;
        let call = question.call();
        match self.send(passage, &call, Way::Plain, within).await {
            Ok(reply) => connection.read(question, reply),
            // No other server is asked here, so waiting is useless.
            Err(Cause::Driver(error)) if failure::leads_elsewhere(&error) => {
                let error = connection.error(call.verb(), Effect::Refused, OneOfCluster(error));
                Err(error.with_mistake(Some(Mistake::Other)))
            }
            Err(cause) => Err(connection.failed(call.verb(), cause)),
        }
    }

    /// Sends a question over a passage with the others that are in flight, if it may travel with them.
    pub(crate) async fn send_together(
        self: &Arc<Self>,
        passage: &Passage,
        question: &impl Question,
    ) -> Result<Together, Cause> {
        let within = self.common.timeouts.response;
        let connection = &passage.connection;
        let batches = connection.batches.as_ref();
        let is_together = question.goes_with_others() || self.is_busy();
        let batches = batches.filter(|_| is_together && passage.trial.is_none());
        let Some(((batches, _), short)) = batches.and_then(|it| Some((it, question.short()?)))
        else {
            return Ok(Together::Alone { within });
        };
        let sent = Instant::now();
        let asked = connection.ask_together(batches, short, sent, within).await;
        let asked = asked.inspect_err(|fault| {
            self.met(connection, fault);
            self.heed(passage, false, Err(fault));
        });
        Ok(match asked.map_err(|fault| fault.cause)? {
            Some(reply) => Together::Replied(reply),
            None => Together::Alone {
                within: within.saturating_sub(sent.elapsed()),
            },
        })
    }
}

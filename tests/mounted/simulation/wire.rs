//! The state that the connection and the inbox of one process share: the server at the other end, and whether the
//! process still lives.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::climate::Climate;
use super::ledger::Ledger;
use super::server::Server;
use crate::base::key::LockKey;
use crate::store::{Acquire, AcquireReply, AcquireShared, Release, Reply, Request, Verb};

pub(super) struct Wire {
    pub(super) server: Arc<Server>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) climate: Climate,
    /// The process was killed: nothing leaves it, and nothing reaches it.
    dead: AtomicBool,
}

impl Wire {
    pub(super) fn new(server: &Arc<Server>, ledger: &Arc<Ledger>, climate: Climate) -> Arc<Self> {
        Arc::new(Self {
            server: Arc::clone(server),
            ledger: Arc::clone(ledger),
            climate,
            dead: AtomicBool::new(false),
        })
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(super) fn kill(&self) {
        self.dead.store(true, Relaxed);
    }

    /// Executes a request as soon as the server can, and notes what it has granted and ended.
    pub(super) async fn execute(&self, request: &Request) -> Reply {
        self.server.until_free().await;
        if let Some(AcquireShared { key, request }) = request.verb() {
            self.ledger.reads(key.as_str(), &request.holds);
        }
        let reply = request.execute(self.server.store());
        self.note(request, &reply);
        reply
    }

    fn note(&self, request: &Request, reply: &Reply) {
        let given = |key: &LockKey, hold, reply: &AcquireReply| {
            if let AcquireReply::Held { token, lease, .. } = *reply {
                self.ledger.given(key.as_str(), hold, token, lease);
            }
        };
        if let Some((Acquire { key, request }, reply)) = both(request, reply) {
            given(key, request.hold, reply);
        } else if let Some((AcquireShared { key, request }, replies)) = both(request, reply) {
            let each = request.holds.iter().zip(replies);
            each.for_each(|(hold, reply)| given(key, *hold, reply));
        } else if let Some((Release { key, request, .. }, _)) = both(request, reply) {
            self.ledger.released(key.as_str(), request.hold);
        }
    }
}

/// A request with its reply, if it is this verb.
fn both<'r, V: Verb>(request: &'r Request, reply: &'r Reply) -> Option<(&'r V, &'r V::Reply)> {
    Some((request.verb()?, reply.downcast_ref()?))
}

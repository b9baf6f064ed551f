//! The label of a hold: what its program says about it, for callers that inspect the lock or wait for it.
//!
//! It is stored after the hold has lasted a heartbeat, so short holds cost no request. It expires with the lease, and
//! is removed when the hold ends. Nothing waits for it and nothing depends on it. If it is missing, the hold is shown
//! without it.

use std::sync::Arc;
use std::time::Duration;

use crate::base::background;
use crate::base::label::stored;
use crate::base::timer::timeout;
use crate::hold::hold::Hold;
use crate::hold::renewals::RenewalSchedule;
use crate::store::{Label, Store, Unlabel};

/// Stores the label of a hold that lasts, in the background.
pub(super) fn publish(hold: &Arc<Hold>, label: &str, renewals: &RenewalSchedule) {
    let (Some(label), Some(runtime)) = (stored(label), renewals.runtime(hold)) else {
        return;
    };
    hold.set_labelled();
    let publication = Publication {
        hold: Arc::clone(hold),
        label,
        store: Arc::clone(renewals.store()),
        limit: renewals.response_timeout(),
    };
    let heartbeat = renewals.queues().heartbeat(hold.ttl());
    background::spawn(&runtime, publication.run(heartbeat));
}

/// The label of one hold while it is published. One task sends all its requests, one after the other, so no request can
/// overtake a removal.
struct Publication {
    hold: Arc<Hold>,
    label: Arc<str>,
    store: Arc<Store>,
    /// The time for which it waits for a response.
    limit: Duration,
}

impl Publication {
    async fn run(self, heartbeat: Duration) {
        let Self { hold, store, .. } = &self;
        let mut is_sent = false;
        let mut pause = heartbeat;
        while timeout(pause, hold.until_ended()).await.is_err() {
            let life = hold.remaining();
            if life.is_zero() {
                break;
            }
            is_sent = true;
            let label = Label {
                key: hold.key().clone(),
                hold: hold.id(),
                label: Arc::clone(&self.label),
                life,
            };
            let is_stored = matches!(timeout(self.limit, store.ask(label)).await, Ok(Ok(())));
            // The hold is renewed equally often.
            pause = if is_stored { hold.ttl() / 3 } else { heartbeat };
        }
        if is_sent {
            // Without a response, the label expires.
            let unlabel = Unlabel(hold.key().clone(), hold.id());
            drop(timeout(self.limit, store.ask(unlabel)).await);
        }
    }
}

//! The messages that the scripts send.

use std::sync::{Arc, OnceLock, Weak};

use super::reply::{self, micros, millis};
use crate::redis::MessageHandler;
use crate::store::records::{
    ForcedMessage, ForcedReleaseListener, HandoffMessage, MessageListener,
};

/// The receivers of the messages of one `Locks`.
pub(super) struct StoreMessages {
    pub(super) listener: Weak<dyn MessageListener>,
    pub(super) holders: Arc<OnceLock<Weak<dyn ForcedReleaseListener>>>,
}

impl MessageHandler for StoreMessages {
    fn received(&self, text: &str) {
        let listener = || self.listener.upgrade();
        match message(text) {
            Some(Message::Handoff(message)) => {
                listener().iter().for_each(|it| it.handoff(message.clone()));
            }
            Some(Message::Contended(key)) => listener().iter().for_each(|it| it.contended(&key)),
            Some(Message::Forced(message)) => {
                let holders = self.holders.get().and_then(Weak::upgrade);
                holders.iter().for_each(|it| it.forced(message.clone()));
            }
            None => {}
        }
    }

    fn missed(&self) {
        let listener = self.listener.upgrade();
        listener.iter().for_each(|it| it.missed());
    }
}

/// A message to an inbox, or to all processes.
#[derive(Debug, PartialEq, Eq)]
enum Message {
    /// A lock has moved: holds, joined by commas, token, time in µs, lease in ms, key.
    Handoff(HandoffMessage),
    /// Another process has begun to wait for a lock: `contended`, key.
    Contended(String),
    /// Holds were ended by force: `forced`, holds, joined by commas, key.
    Forced(ForcedMessage),
}

fn message(text: &str) -> Option<Message> {
    match text.split_once(' ')? {
        ("contended", key) => Some(Message::Contended(key.to_owned())),
        ("forced", text) => forced(text).map(Message::Forced),
        _ => handoff(text).map(Message::Handoff),
    }
}

/// Reads which holds were ended. ForcedReleaseListener of other programs may be among them, and are omitted.
fn forced(text: &str) -> Option<ForcedMessage> {
    let (holds, key) = text.split_once(' ')?;
    let holds = holds.split(',').filter_map(|hold| hold.parse().ok());
    Some(ForcedMessage {
        key: key.to_owned(),
        holds: holds.collect(),
    })
}

pub(crate) fn handoff(text: &str) -> Option<HandoffMessage> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let holds = word()?.split(',').map(|hold| hold.parse().ok());
    let holds = holds.collect::<Option<_>>()?;
    let [token, at, lease] = [word()?, word()?, word()?].map(|word| word.parse().ok());
    Some(HandoffMessage {
        holds,
        token: reply::token(token?)??,
        at: micros(at?)?,
        lease: millis(lease?)?,
        key: word()?.to_owned(),
    })
}

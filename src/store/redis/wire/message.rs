//! The messages that the scripts send.

use redis::{FromRedisValue, PushInfo};

use super::value::{micros, millis, token};
use crate::store::records::{ForcedMessage, HandoffMessage};

/// A message to an inbox.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A lock has moved: holds, joined by commas, token, time in µs, lease in ms, key.
    Handoff(HandoffMessage),
    /// Another process has come to wait for a lock: `contended`, key.
    Contended(String),
    /// Holds were ended by force: `forced`, holds, joined by commas, key.
    Forced(ForcedMessage),
}

/// The message that the server has sent to a channel.
pub(crate) fn pushed(push: &PushInfo) -> Option<Message> {
    let text = push.data.get(1).map(String::from_redis_value_ref);
    message(&text?.ok()?)
}

pub(crate) fn message(text: &str) -> Option<Message> {
    match text.split_once(' ')? {
        ("contended", key) => Some(Message::Contended(key.to_owned())),
        ("forced", text) => forced(text).map(Message::Forced),
        _ => handoff(text).map(Message::Handoff),
    }
}

/// Holders of other programs may be among them.
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
        token: self::token(token?)??,
        at: micros(at?)?,
        lease: millis(lease?)?,
        key: word()?.to_owned(),
    })
}

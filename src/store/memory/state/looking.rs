//! What operators do: to look at a lock, and to end its holds by force.

use tokio::time::Instant;

use super::{Message, State};
use crate::{
    base::{id::FencingToken, key::LockKey, mode::Mode},
    store::{ForcedMessage, Seen, SeenHolder, Snapshot},
};

impl State {
    pub(in crate::store::memory) fn inspect(
        &mut self,
        key: &LockKey,
        now: Instant,
    ) -> Option<Snapshot> {
        let at = self.time(now);
        let waiting = self.line(key, now, |line| line.waiting(now));
        let is_shared = self.latest(key, now).is_some();
        let shown: Vec<_> = self.live_lock(key, now)?.shown().collect();
        let holders = shown.into_iter().map(|(hold, field, depth)| {
            let lasts = self.line(key, now, |line| line.reader(hold));
            SeenHolder {
                field,
                depth: u64::from(depth),
                remaining: lasts.filter(|_| is_shared).map(|lasts| lasts - now),
            }
        });
        let holders = holders.collect();
        let lock = self.live_lock(key, now)?;
        Some(Snapshot {
            holders,
            mode: if is_shared {
                Mode::Shared
            } else {
                Mode::Exclusive
            },
            remaining: Some(lock.expires - now),
            token: Some(FencingToken(lock.token)),
            waiting,
            at,
        })
    }

    pub(in crate::store::memory) fn force_release(
        &mut self,
        key: &LockKey,
        seen: &Seen,
        now: Instant,
    ) -> Vec<Vec<u8>> {
        let Some(lock) = self.live_lock(key, now) else {
            return Vec::new();
        };
        let token = lock.token;
        let shown: Vec<_> = lock.shown().collect();
        let named = |field| shown.iter().find(|(_, shown, _)| shown == field);
        let seen_here = seen.fields.iter().filter_map(named);
        let (holds, ended): (Vec<_>, Vec<_>) = seen_here
            .map(|(hold, field, _)| (*hold, field.clone()))
            .unzip();
        if holds.is_empty() || seen.token.is_some_and(|seen| seen.0 != token) {
            return Vec::new();
        }
        if self.latest(key, now).is_some() {
            for hold in &holds {
                self.take_out(key, *hold, now);
            }
        } else {
            self.locks.remove(key);
        }
        for &hold in &holds {
            self.line(key, now, |line| {
                line.forget_reader(hold);
                line.forget_changes(hold);
            });
        }
        self.settle_and_admit(key, token, now);
        let key = key.as_str().to_owned();
        let message = ForcedMessage { key, holds };
        self.messages.push(Message::Forced(message));
        ended
    }
}

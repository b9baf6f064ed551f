//! Several locks at once in the in-memory store.

use std::time::Duration;

use tokio::time::Instant;

use super::{Lock, State};
use crate::{
    base::{
        id::{FencingToken, HoldId},
        key::LockKey,
    },
    store::{AcquireAllReply, HoldOf, Presence, Renewal},
};

impl State {
    pub(in crate::store::memory) fn acquire_all(
        &mut self,
        keys: &[LockKey],
        hold: HoldId,
        ttl: Duration,
        now: Instant,
    ) -> AcquireAllReply {
        if keys
            .iter()
            .any(|key| self.line(key, now, |line| line.is_buried(hold)))
        {
            return AcquireAllReply::Ended;
        }
        let at = self.clock.at(now);
        for key in keys {
            self.tidy(key, now);
        }
        let busy = keys
            .iter()
            .position(|key| self.live_lock(key, now).is_some() || self.head(key, now).is_some());
        let Some(first) = busy else {
            let token = FencingToken(self.clock.token(at));
            for key in keys {
                let lock = Lock {
                    fields: vec![(hold, 1)],
                    told: None,
                    token: token.0,
                    expires: now + ttl,
                    is_kept: false,
                };
                self.locks.insert(key.clone(), lock);
            }
            let locks = vec![(token, ttl); keys.len()];
            return AcquireAllReply::Held { at, locks };
        };
        if keys.iter().any(|key| self.held(key, hold, now).is_none()) {
            return AcquireAllReply::Busy { first };
        }
        let mine = keys.iter().filter_map(|key| {
            let lock = self.held(key, hold, now)?;
            lock.lengthen(now, ttl);
            Some((FencingToken(lock.token), lock.expires - now))
        });
        let locks = mine.collect();
        AcquireAllReply::Held { at, locks }
    }

    pub(in crate::store::memory) fn renew_all(
        &mut self,
        holds: &[HoldOf],
        ttl: Duration,
        now: Instant,
    ) -> Option<usize> {
        holds.iter().position(|&(ref key, hold)| {
            let renewal = Renewal { hold, ttl };
            self.renew(key, renewal, now) == Presence::Gone
        })
    }

    pub(in crate::store::memory) fn release_all(
        &mut self,
        holds: &[HoldOf],
        now: Instant,
    ) -> Vec<bool> {
        let ended = holds.iter().map(|&(ref key, hold)| {
            let is_released =
                self.held(key, hold, now).is_some() && !self.line(key, now, |line| line.stands());
            if is_released {
                self.locks.remove(key);
            }
            is_released
        });
        ended.collect()
    }
}

//! The locks of one process: one, or several that were acquired together.

use std::convert::Infallible;
use std::future;
use std::io::Write;
use std::time::Duration;

use humantime::format_duration;
use reentry::__admin::{HoldId, Ids as _, cancel_min_hold};
use reentry::{FencingToken, Held, LockError, LockGuard, LockRequest, Locks};

use super::enclosing::HeldKey;
use super::options::Options;
use crate::text::printable;

pub(crate) struct Lock {
    guard: LockGuard,
    /// The keys in the order of the arguments, each once. The guard has an order that is the same in all processes.
    keys: Vec<String>,
}

impl Lock {
    /// Waits for the locks of these keys.
    pub(crate) async fn acquire(
        locks: &Locks,
        keys: &[String],
        options: &Options,
    ) -> Result<Self, LockError> {
        if options.verbose {
            let keys: Vec<_> = keys.iter().map(String::as_str).collect();
            say(&format!("waiting for {}", quoted(&keys)));
        }
        let request = match (keys, options.permits) {
            ([key], Some(permits)) => locks.semaphore(key, permits),
            _ => locks.lock_all(keys),
        };
        let guard = with_options(request, options).acquire().await?;
        let keys = each_once(keys);
        Ok(Self { guard, keys })
    }

    /// The locks, each of them once, in the order of the arguments.
    fn held(&self) -> Vec<&Held> {
        let keys = self.keys.iter();
        keys.filter_map(|key| self.guard.all().iter().find(|held| held.key() == key))
            .collect()
    }

    /// The hold of the first lock, which is usually the hold of all of them.
    pub(crate) fn hold(&self) -> Option<HoldId> {
        self.held().first().map(|held| held.hold_id())
    }

    /// Each key with its hold and its token. If an attempt to acquire several locks failed halfway, some have another
    /// hold.
    pub(crate) fn holds(&self) -> Vec<(&str, HoldId, FencingToken)> {
        let held = self.held().into_iter();
        held.map(|held| (held.key(), held.hold_id(), held.fencing_token()))
            .collect()
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.held().into_iter().map(Held::key).collect()
    }

    /// The tokens, in the order of the keys.
    pub(crate) fn tokens(&self) -> Vec<FencingToken> {
        let held = self.held().into_iter();
        held.map(Held::fencing_token).collect()
    }

    /// Waits until one of the locks is lost.
    pub(crate) async fn lost(&self) -> LockError {
        let forever = future::pending::<Infallible>();
        match self.guard.scope(forever).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    /// The reason for which a lock is lost at this moment.
    pub(crate) async fn loss(&self) -> Option<LockError> {
        self.guard.scope(future::ready(())).await.err()
    }

    /// Prints on standard error which locks were acquired.
    pub(crate) fn report(&self) {
        let tokens = self.tokens();
        let tokens: Vec<_> = tokens.iter().map(FencingToken::to_string).collect();
        let (keys, tokens) = (quoted(&self.keys()), tokens.join(", "));
        say(&format!("acquired {keys}, token {tokens}"));
    }

    /// Releases the locks before their minimum time is over, because nothing was done under them.
    pub(crate) async fn give_back(self) -> Result<(), LockError> {
        self.held().into_iter().for_each(cancel_min_hold);
        self.release().await
    }

    pub(crate) async fn release(self) -> Result<(), LockError> {
        self.guard.release().await
    }
}

fn each_once(keys: &[String]) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for key in keys {
        if !once.contains(key) {
            once.push(key.clone());
        }
    }
    once
}

fn with_options(request: LockRequest, options: &Options) -> LockRequest {
    let request = request.ttl(options.ttl);
    let request = match (options.nonblock, options.timeout) {
        (true, _) => request.no_wait(),
        (false, Some(timeout)) => request.wait(timeout),
        (false, None) => request.wait(Duration::MAX),
    };
    let request = match options.shared {
        true => request.read(),
        false => request,
    };
    match options.min_hold {
        Some(min_hold) => request.min_hold(min_hold),
        None => request,
    }
}

fn quoted(keys: &[&str]) -> String {
    let quoted: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
    quoted.join(", ")
}

/// Prints on standard error which locks of the enclosing runs were re-entered.
pub(crate) fn report_reentered(held: &[HeldKey]) {
    let keys: Vec<_> = held.iter().map(|held| &*held.key).collect();
    say(&format!("re-entered {}", quoted(&keys)));
}

/// Prints that these locks stay held for the rest of their leases.
pub(crate) fn say_unanswered(keys: &[String], ttl: Duration) {
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let (keys, ttl) = (quoted(&keys), format_duration(ttl));
    say(&format!(
        "the server did not respond to the release of {keys}: it may stay locked until its lease expires, for at most {ttl}"
    ));
}

/// Prints a line. A closed standard error does not stop the command.
pub(crate) fn say(words: &str) {
    let _ = writeln!(anstream::stderr(), "reentry: {}", printable(words));
}

//! A trial lock: acquired, entered twice, renewed, listed, handed off to another process and released.

use std::process;
use std::time::{Duration, Instant};

use reentry::{__admin, LockError, Locks};
use tokio::time::sleep;

use super::facts::ask;
use super::finding::Finding;
use super::server::short_micros;
use crate::inspector::Inspector;
use crate::servers::Server;

const CHECK: &str = "locks";

/// The lease of the trial lock, if this program dies in between, and the time limit for the wait.
const TTL: Duration = Duration::from_secs(5);

/// The interval at which the trial checks whether the waiter is in the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The commands that locks need, as the permissions in `docs/operations.md` allow them.
const RIGHTS: &str = "+evalsha +eval +info +ping +publish +subscribe +time +exists +del +pexpire +pexpireat +pttl +hget \
    +hmget +hset +hincrby +hdel +hexists +hgetall +hlen +hscan +zadd +zcount +zrange +zrem \
    +zremrangebyscore +zscore +get +set +client|setname";

/// The number of keys that are tried to find one that a server of a cluster has.
const KEYS: u32 = 256;

/// The locks of two processes, and the key that they try.
pub(crate) struct Trial {
    pub(crate) locks: Locks,
    pub(crate) inspector: Inspector,
    pub(crate) other: Locks,
    pub(crate) prefix: String,
    /// The key that the user named.
    pub(crate) named: Option<String>,
}

impl Trial {
    /// Tries a lock that this server has. Returns no finding if the server does not have the key that was named.
    ///
    /// # Errors
    ///
    /// The reason why the server does not respond.
    pub(crate) async fn at(&self, server: &Server) -> Result<Vec<Finding>, String> {
        let Some(key) = self.key_at(server).await? else {
            return Ok(Vec::new());
        };
        let mut findings = Vec::with_capacity(2);
        match self.hand_off(&key).await {
            Ok((took, listed)) => {
                let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                let took = short_micros(took);
                findings.push(Finding::ok(
                    CHECK,
                    format!(
                        "a lock was acquired, entered twice, renewed, handed off in {took}, and released"
                    ),
                ));
                findings.push(listing(listed));
            }
            Err(error) if error.is_busy() => findings.push(Finding::warn(
                CHECK,
                format!("`{key}` is held, so it was not tried"),
                "use `--key NAME` with the name of a lock that the user needs and that is free",
            )),
            Err(error) => {
                let is_covered = !__admin::refuses_key(&error) || self.covers(server, &key).await?;
                if !is_covered && self.named.is_none() {
                    return Ok(vec![self.uncovered(&key)]);
                }
                let said = format!("{:#}", anyhow::Error::new(error));
                let advice = advice(&said, is_covered);
                findings.push(Finding::fail(
                    CHECK,
                    format!("no lock can be acquired: {said}"),
                    advice,
                ));
            }
        }
        Ok(findings)
    }

    /// The key for the trial: the program's own, unless the user named one.
    async fn key_at(&self, server: &Server) -> Result<Option<String>, String> {
        let own = |number| format!("reentry-doctor:{}:{number}", process::id());
        let keys = match &self.named {
            Some(key) => vec![key.clone()],
            None => (0..KEYS).map(own).collect(),
        };
        for key in keys {
            let name = format!("{}{key}", self.prefix);
            match ask::<i64>(server, &["EXISTS", &name]).await? {
                Err(said) if said.contains("MOVED") => {}
                _ => return Ok(Some(key)),
            }
        }
        Ok(None)
    }

    /// Returns how long the second process waited for the lock after its release, and whether the lock was listed.
    async fn hand_off(&self, key: &str) -> Result<(Duration, anyhow::Result<()>), LockError> {
        let guard = self.locks.lock(key).ttl(TTL).no_wait().await?;
        let nested = guard.scope(self.locks.lock(key).ttl(TTL).no_wait().acquire());
        nested.await??.release().await?;
        __admin::renew(&self.locks, guard.held()).await?;
        let release = async {
            // The waiter is in the queue as soon as it knows that the lock is held. If the lock was lost, the waiter
            // may have acquired it.
            let is_held = || !guard.held().is_lost();
            while is_held()
                && __admin::last_answer(&self.other, key)
                    .transpose()?
                    .is_none()
            {
                sleep(POLL_INTERVAL).await;
            }
            let listed = listed(&self.inspector, key).await;
            let begun = Instant::now();
            guard.release().await?;
            Ok((begun, listed))
        };
        let next = self.other.lock(key).ttl(TTL).wait(TTL).acquire();
        let ((begun, listed), next) = tokio::try_join!(release, next)?;
        let took = begun.elapsed();
        next.release().await?;
        Ok((took, listed))
    }

    /// Whether the user may access the lock itself, even if not the additional keys.
    async fn covers(&self, server: &Server, key: &str) -> Result<bool, String> {
        let name = format!("{}{key}", self.prefix);
        let asked = ask::<i64>(server, &["EXISTS", &name]).await?;
        Ok(!matches!(asked, Err(said) if said.contains("access")))
    }

    /// A finding: the program cannot judge the locks of this user.
    fn uncovered(&self, key: &str) -> Finding {
        let name = format!("{}{key}", self.prefix);
        Finding::warn(
            CHECK,
            format!(
                "the key patterns of the user do not cover `{name}`: it is unknown whether they cover the locks that it needs"
            ),
            "use `--key NAME` with the name of a lock that it needs",
        )
    }
}

async fn listed(inspector: &Inspector, key: &str) -> anyhow::Result<()> {
    inspector.one(key).await?;
    inspector.queue(key, 1).await?;
    inspector
        .list(&[key.to_owned()])
        .next_page()
        .await
        .map(drop)
}

fn listing(listed: anyhow::Result<()>) -> Finding {
    const CHECK: &str = "user";
    match listed {
        Ok(()) => Finding::ok(CHECK, "the user has the permissions for lists"),
        Err(error) => Finding::warn(
            CHECK,
            format!("`reentry ls`, `show` and `watch` are rejected: {error:#}"),
            "+scan +hkeys +zcount +dbsize",
        ),
    }
}

/// The advice for an error of the server.
fn advice(said: &str, is_covered: bool) -> String {
    const ADVICE: [(&str, &str); 7] = [
        (
            "read only replica",
            "name the primary, or use the sentinels (redis+sentinel://), which know it",
        ),
        ("OOM", "give it more memory, or store less data"),
        (
            "NOREPLICAS",
            "start its replicas, or check the network between them",
        ),
        ("MISCONF", "check its log and its disk"),
        (
            "unknown command",
            "use a server that has this command, without a proxy that blocks it",
        ),
        (
            "access",
            "~reentry:queue:* ~reentry:entries:*, in addition to a pattern for the lock",
        ),
        // A script that calls a forbidden command does not learn which command it was.
        ("can't run this command", RIGHTS),
    ];
    if !is_covered {
        return "a pattern for this key, and ~reentry:queue:* ~reentry:entries:*".to_owned();
    }
    // "… has no permissions to run the 'hset' command"
    let command = said.split_once("run the '");
    if let Some((command, _)) = command.and_then(|(_, it)| it.split_once('\'')) {
        return format!("+{command}");
    }
    let known = ADVICE.iter().find(|(words, _)| said.contains(words));
    let known = known.map(|(_, advice)| *advice);
    known
        .unwrap_or("check the error of the server, and its log")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_named_where_the_server_names_it() {
        let said = "NOPERM User locker has no permissions to run the 'evalsha' command";
        assert_eq!(advice(said, true), "+evalsha");
        let said = "The user executing the script can't run this command or subcommand";
        assert!(advice(said, true).contains("+hset"));
    }
}

//! The meaning of the driver's errors for a request.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::mistake::mistake;
use crate::base::error::{Effect, StoreError};
use crate::base::timer::{Elapsed, timeout};

/// The effect that a failed request may have had, as far as the error shows.
pub(crate) fn effect(error: &RedisError) -> Effect {
    use ServerErrorKind as Server;
    match error.kind() {
        ErrorKind::Server(
            Server::BusyLoading
            | Server::ReadOnly
            | Server::Moved
            | Server::Ask
            | Server::TryAgain
            | Server::ClusterDown
            | Server::MasterDown
            | Server::NotBusy,
        ) => Effect::None,
        // The slot of the script moved while it ran. What it had already written is kept.
        _ if meets_foreign_key(error) => Effect::Unknown,
        // A script meets one of these errors at its first write, before it has changed anything.
        _ if condition(error).is_some() => Effect::None,
        ErrorKind::InvalidClientConfig => Effect::Refused,
        _ if lacks_permission(error) => Effect::Forbidden,
        ErrorKind::Server(_) | ErrorKind::Extension if is_verdict(error) => Effect::Refused,
        ErrorKind::Server(_)
        | ErrorKind::Extension
        | ErrorKind::AuthenticationFailed
        | ErrorKind::RESP3NotSupported => Effect::TurnedAway,
        _ if error.is_connection_refusal() => Effect::None,
        _ => Effect::Unknown,
    }
}

/// The state that keeps the server from writing for now.
///
/// Before Redis 7.0 an error inside a script is wrapped into a general one, with its code in the text. An error that
/// the script returns begins with the place where it occurred.
pub(crate) fn condition(error: &RedisError) -> Option<&'static str> {
    const CONDITIONS: [&str; 5] = ["OOM", "MISCONF", "NOREPLICAS", "BUSY", "READONLY"];
    let code = error.code()?;
    let is_wrapped = matches!(code, "ERR" | "@user_script:");
    let wrapped = error.detail().filter(|_| is_wrapped).unwrap_or_default();
    CONDITIONS.into_iter().find(|condition| {
        let inside = wrapped.split(": -").skip(1);
        code == *condition
            || inside
                .last()
                .is_some_and(|text| text.starts_with(condition))
    })
}

/// Returns whether the server is a replica.
pub(crate) fn refuses_to_write(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || condition(error) == Some("READONLY")
}

/// Returns whether the server would also reject any other request, because it loads its data, is busy, or its cluster
/// is down. A cluster that is up may still lack single slots.
pub(crate) fn refuses_all(error: &RedisError) -> bool {
    use ServerErrorKind as Server;
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::Server(Server::BusyLoading | Server::MasterDown) => true,
        ErrorKind::Server(Server::ClusterDown) => detail.contains("cluster is down"),
        _ => condition(error) == Some("BUSY"),
    }
}

/// Returns whether the user has no permission for the request, or for a command of its script. Before Redis 7.0 an error
/// inside a script has no code for that.
fn lacks_permission(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    let is_inside = ["NOPERM ", "The user executing the script can't "]
        .iter()
        .any(|words| detail.contains(words));
    error.code() == Some("NOPERM") || is_inside
}

/// Returns whether the server rejects this very request: the error is about a command or a key, or comes from inside
/// the script. Any other error may come from a proxy, or from the login.
fn is_verdict(error: &RedisError) -> bool {
    let code = error.code().unwrap_or_default();
    let is_of_script = || error.detail().unwrap_or_default().contains("script");
    match code {
        "WRONGTYPE" | "NOLOCK" | "CROSSSLOT" | "@user_script:" => true,
        _ => code == "ERR" && is_of_script(),
    }
}

/// Returns whether the server has rejected a request because of its key alone, so that this says nothing about others.
pub(crate) fn is_about_key(error: &StoreError) -> bool {
    of_driver(error).is_some_and(refuses_key)
}

/// Returns whether the error of a request about several keys may be that of one of them, so that requests about the
/// others may succeed.
pub(crate) fn may_be_about_one_key(error: &StoreError) -> bool {
    error.effect().is_rejected() || of_driver(error).is_some_and(is_about_several_keys)
}

fn of_driver(error: &StoreError) -> Option<&RedisError> {
    let cause = error.cause().downcast_ref();
    cause.map(|DriverError(error)| error)
}

/// Returns whether the user may not access a key of the request, in the words of Redis 6.2 ("one of the keys") or later
/// ("a key"). Other missing permissions have the same code.
fn refuses_key(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    error.code() == Some("NOPERM") && detail.contains("access") && detail.contains(" key")
}

/// The usual reason why a server ends a connection before it responds. The server sends its reason first, but the driver
/// discards it, because it waits for the responses to several requests.
pub(crate) fn closed_at_once(error: &RedisError) -> Option<&'static str> {
    const REASON: &str = "the server closed the connection before it responded, as it does when `maxclients` is reached";
    // The driver uses the same kind for a host that it cannot find, which is no error of the system.
    let is_of_system = error.source().is_some();
    let is_closed = error.is_connection_dropped() && !error.is_connection_refusal();
    (is_of_system && is_closed).then_some(REASON)
}

/// Returns whether the slot of several keys is moving, and no longer has some of them.
fn is_about_several_keys(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::TryAgain)
}

/// Returns whether a script was aborted, maybe in the middle, because one of its keys is now on another server of the
/// cluster.
fn meets_foreign_key(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.contains("attempted to access a non local key")
}

/// The failure of a request that a server of a cluster redirects, although no other server is asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}; the server is one of a cluster: use `redis+cluster://`")]
pub(crate) struct OneOfCluster(pub(crate) RedisError);

/// Returns whether the error is a redirection.
pub(crate) fn leads_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, Moved};
    matches!(error.kind(), ErrorKind::Server(Moved | Ask))
}

/// The reason why a request fails that was left to a task of another runtime.
pub(crate) const RUNTIME_ENDED: &str = "the runtime that sent the request has ended";

/// The error of a request whose response will not arrive.
pub(crate) fn aborted(cause: &'static str) -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionAborted, cause).into()
}

/// Waits for a response of the driver until the limit.
pub(crate) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    let answered = timeout(limit, answer).await;
    answered.unwrap_or_else(|Elapsed| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// The error of a step that has met an error of the driver.
pub(crate) fn failed(step: &'static str, endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let effect = effect(&error);
    let mistake = mistake(&error, effect);
    StoreError::new(step, endpoint, effect, DriverError(error)).with_mistake(mistake)
}

/// An error of the driver as a text. The error repeats itself in its own sources, and its type is not part of the
/// public interface of this crate.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DriverError(pub(crate) RedisError);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The error that a server's line stands for.
    pub(in super::super) fn error(line: &str) -> RedisError {
        let reply = redis::parse_redis_value(format!("{line}\r\n").as_bytes());
        reply.unwrap().extract_error().unwrap_err()
    }

    #[test]
    fn a_server_that_cannot_write_for_now_is_asked_again() {
        let in_script = "-ERR Error running script (call to f_6b1b): @user_script:38: \
                         @user_script: 38: -OOM command not allowed when used memory > 'maxmemory'.";
        for line in [
            "-OOM command not allowed when used memory > 'maxmemory'.",
            "-READONLY You can't write against a read only replica.",
            "-LOADING Redis is loading the dataset in memory",
            "-BUSY Redis is busy running a script.",
            "-NOREPLICAS Not enough good replicas to write.",
            "-MISCONF Redis is configured to save RDB snapshots",
            in_script,
            &in_script.replace("OOM", "READONLY"),
            "-@user_script: 14: -OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            assert_eq!(effect(&error(line)), Effect::None, "{line}");
        }
    }

    #[test]
    fn who_knows_one_server_of_a_cluster_is_told_what_to_use() {
        for (line, leads) in [
            ("-MOVED 3999 127.0.0.1:6381", true),
            ("-ASK 3999 127.0.0.1:6381", true),
            (
                "-TRYAGAIN Multiple keys request during rehashing of slot",
                false,
            ),
            ("-CLUSTERDOWN The cluster is down", false),
            (
                "-READONLY You can't write against a read only replica.",
                false,
            ),
        ] {
            assert_eq!(leads_elsewhere(&error(line)), leads, "{line}");
            let told = OneOfCluster(error(line)).to_string();
            assert!(told.contains("redis+cluster://"), "{told}");
        }
    }

    #[test]
    fn what_will_never_work_is_not_asked_again() {
        for line in [
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "-ERR hash value is not an integer script: 6b1b, on @user_script:14.",
            "-ERR Error running script (call to f_6b1b): @user_script:38: -WRONGTYPE Operation",
            "-@user_script: 14: -WRONGTYPE Operation against a key holding the wrong kind of value",
        ] {
            assert_eq!(effect(&error(line)), Effect::Refused, "{line}");
        }
    }

    #[test]
    fn a_missing_permission_is_told_from_what_will_never_work() {
        for line in [
            "-NOPERM this user has no permissions to run the 'evalsha' command",
            "-NOPERM ACL failure in script: User locker has no permissions to run the 'del' command",
            "-ERR NOPERM ACL failure in script: No permissions to access a key script: 6b1b, on @user_script:14.",
            "-ERR Error running script (call to f_6b1b): @user_script:38: @user_script: 38: \
             The user executing the script can't run this command or subcommand",
        ] {
            assert_eq!(effect(&error(line)), Effect::Forbidden, "{line}");
        }
    }

    /// These faults can go away: a password is changed back, a proxy finds its server again.
    #[test]
    fn what_keeps_a_process_out_may_be_set_right() {
        for line in [
            "-WRONGPASS invalid username-password pair or user is disabled.",
            "-NOAUTH Authentication required.",
            "-ERR max number of clients reached",
            "-ERR upstream failure",
            "-DENIED Redis is running in protected mode",
            "-no upstream host",
        ] {
            assert_eq!(effect(&error(line)), Effect::TurnedAway, "{line}");
        }
    }

    #[test]
    fn a_server_that_refuses_whatever_comes_is_told_from_one_that_refuses_a_request() {
        for (line, refuses_all) in [
            ("-LOADING Redis is loading the dataset in memory", true),
            ("-MASTERDOWN Link with MASTER is down", true),
            (
                "-READONLY You can't write against a read only replica.",
                false,
            ),
            ("-BUSY Redis is busy running a script.", true),
            ("-CLUSTERDOWN The cluster is down", true),
            ("-CLUSTERDOWN Hash slot not served", false),
            (
                "-OOM command not allowed when used memory > 'maxmemory'.",
                false,
            ),
            ("-NOREPLICAS Not enough good replicas to write.", false),
            ("-MOVED 1 10.0.0.1:7", false),
            ("-NOPERM No permissions to access a key", false),
        ] {
            assert_eq!(super::refuses_all(&error(line)), refuses_all, "{line}");
        }
    }

    #[test]
    fn a_connection_that_is_closed_at_once_has_a_usual_reason() {
        use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, TimedOut};
        for (kind, is_closed) in [
            (BrokenPipe, true),
            (ConnectionReset, true),
            (ConnectionRefused, false),
            (TimedOut, false),
        ] {
            let error = RedisError::from(io::Error::from(kind));
            assert_eq!(closed_at_once(&error).is_some(), is_closed, "{kind:?}");
        }
        let unknown_host = RedisError::from((ErrorKind::Io, "No address found for host"));
        assert_eq!(closed_at_once(&unknown_host), None);
        assert_eq!(closed_at_once(&error("-ERR upstream failure")), None);
    }

    #[test]
    fn a_key_that_is_refused_is_told_from_a_command_that_is() {
        for (line, is_key) in [
            ("-NOPERM No permissions to access a key", true),
            (
                "-NOPERM this user has no permissions to access one of the keys used as arguments",
                true,
            ),
            (
                "-NOPERM this user has no permissions to run the 'evalsha' command",
                false,
            ),
            (
                "-NOPERM ACL failure in script: User locker has no permissions to run the 'hkeys' command",
                false,
            ),
            ("-NOPERM No permissions to access a channel", false),
            ("-ERR invalid key access", false),
        ] {
            assert_eq!(refuses_key(&error(line)), is_key, "{line}");
        }
    }
}

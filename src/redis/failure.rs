//! The meaning of the driver's errors: what became of the request, and whether the connection, the key, or a mistake in
//! a setting is to blame.

use std::error::Error;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::base::error::{FailureClass, Mistake, StoreError};

/// The error of a request that has met an error of the driver.
pub(crate) fn request_error(
    step: &'static str,
    endpoint: &Arc<str>,
    error: RedisError,
) -> StoreError {
    let (class, mistake) = classify(&error);
    StoreError::new(step, endpoint, class, DriverError(error)).with_mistake(mistake)
}

/// The error of a connection that could not be opened. Nothing was executed, whatever the error says.
pub(crate) fn connect_error(endpoint: &Arc<str>, error: RedisError) -> StoreError {
    let (class, mistake) = classify(&error);
    // Whatever was rejected here, the server rejects the process, not a request.
    let class = if class.is_denied() {
        FailureClass::AccessDenied
    } else {
        FailureClass::NotExecuted
    };
    let error = match closed_at_once(&error) {
        Some(cause) => StoreError::new("connect", endpoint, class, cause),
        None => StoreError::new("connect", endpoint, class, DriverError(error)),
    };
    error.with_mistake(mistake)
}

/// The error of a request that a server of a cluster redirects, although no other server is asked.
pub(crate) fn one_of_cluster(redirected: &StoreError, verb: &'static str) -> StoreError {
    let cause = redirected.cause();
    let cause = format!("{cause}; the server is one of a cluster: use `redis+cluster://`");
    let error = StoreError::new(verb, redirected.endpoint(), FailureClass::Permanent, cause);
    error.with_mistake(Some(Mistake::Other))
}

/// An error of the driver as a text. The error repeats itself in its own sources, and its type is not part of the
/// public interface of this crate.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct DriverError(RedisError);

/// The error of the driver behind an error.
pub(crate) fn driver_error(error: &StoreError) -> Option<&RedisError> {
    let cause = error.cause().downcast_ref();
    cause.map(|DriverError(error)| error)
}

/// The class of a failed request, as far as its error shows, and the mistake behind the failure, if it
/// is not the server that has failed.
fn classify(error: &RedisError) -> (FailureClass, Option<Mistake>) {
    use ServerErrorKind as Server;
    match error.kind() {
        // Nothing was executed: the reason passes, or another server has the key.
        ErrorKind::Server(
            Server::BusyLoading
            | Server::ReadOnly
            | Server::Moved
            | Server::Ask
            | Server::TryAgain
            | Server::ClusterDown
            | Server::MasterDown
            | Server::NotBusy,
        ) => (FailureClass::NotExecuted, None),
        // The slot of the script moved while it ran. What it had already written is kept.
        _ if detail(error).contains("attempted to access a non local key") => {
            (FailureClass::OutcomeUnknown, None)
        }
        // A script meets one of these errors at its first write, before it has changed anything.
        _ if condition(error).is_some() => (FailureClass::NotExecuted, None),
        ErrorKind::InvalidClientConfig => (FailureClass::Permanent, Some(Mistake::Other)),
        // Before the errors from inside a script: old servers wrap this one in such an error.
        _ if lacks_permission(error) => {
            (FailureClass::PermissionMissing, Some(Mistake::Permission))
        }
        ErrorKind::Server(_) | ErrorKind::Extension if is_verdict(error) => {
            (FailureClass::Permanent, Some(mistaken_key(error)))
        }
        // Any other error may come from a proxy, or from the login.
        ErrorKind::Server(_)
        | ErrorKind::Extension
        | ErrorKind::AuthenticationFailed
        | ErrorKind::RESP3NotSupported => (FailureClass::AccessDenied, mistaken_setting(error)),
        // There was no connection over which anything could be sent.
        _ if error.is_connection_refusal() => (FailureClass::NotExecuted, None),
        // A cut or a timeout: the request may have been executed, or still be on its way.
        _ => (FailureClass::OutcomeUnknown, None),
    }
}

fn detail(error: &RedisError) -> &str {
    error.detail().unwrap_or_default()
}

/// The state that keeps the server from writing for now.
///
/// Before Redis 7.0 an error inside a script is wrapped into a general one, with its code in the text. An error that
/// the script returns begins with the place where it occurred.
pub(crate) fn condition(error: &RedisError) -> Option<&'static str> {
    const CONDITIONS: [&str; 5] = ["OOM", "MISCONF", "NOREPLICAS", "BUSY", "READONLY"];
    let code = error.code()?;
    let is_wrapped = matches!(code, "ERR" | "@user_script:");
    // The code of the inner error is behind the last `: -`.
    let inside = detail(error).split(": -").skip(1).last();
    let inside = inside.filter(|_| is_wrapped).unwrap_or_default();
    let is_met = |condition: &&str| code == *condition || inside.starts_with(*condition);
    CONDITIONS.into_iter().find(is_met)
}

/// Returns whether the user has no permission for the request, or for a command of its script. Before Redis 7.0 an error
/// inside a script has no code for that.
fn lacks_permission(error: &RedisError) -> bool {
    let inside = ["NOPERM ", "The user executing the script can't "];
    error.code() == Some("NOPERM") || inside.iter().any(|words| detail(error).contains(words))
}

/// Returns whether the server rejects this very request: the error is about a command or a key, or comes from inside
/// the script.
fn is_verdict(error: &RedisError) -> bool {
    match error.code() {
        Some("WRONGTYPE" | "NOLOCK" | "CROSSSLOT" | "@user_script:") => true,
        code => code == Some("ERR") && detail(error).contains("script"),
    }
}

/// The mistake behind a request that is rejected for good.
fn mistaken_key(error: &RedisError) -> Mistake {
    let foreign = ["WRONGTYPE", "is not an integer"];
    let is_foreign = matches!(error.code(), Some("WRONGTYPE" | "NOLOCK"))
        || foreign.iter().any(|words| detail(error).contains(words));
    if is_foreign {
        Mistake::NotALock
    } else {
        Mistake::Other
    }
}

/// The mistake behind the rejection of a process.
fn mistaken_setting(error: &RedisError) -> Option<Mistake> {
    // A provider of credentials that fails has the same kind as a login that RESP2 rejects.
    let is_login = error.kind() == ErrorKind::AuthenticationFailed
        && error
            .to_string()
            .starts_with("Password authentication failed");
    // A cluster was named, or a server that runs scripts, and it is none.
    let is_other_server = [
        "unknown command",
        "unsupported command",
        "cluster support disabled",
    ];
    let words = detail(error).to_ascii_lowercase();
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "DENIED") => Some(Mistake::Login),
        _ if is_login => Some(Mistake::Login),
        _ if is_other_server.iter().any(|it| words.contains(it)) => Some(Mistake::Other),
        _ => None,
    }
}

/// Returns whether the connection must be given up: it has ended, or its server executes no requests.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || rejects_all(error)
        || is_read_only(error)
}

/// Returns whether the server is a replica. One that is a replica from the start is reported when the connection is
/// opened (`connector/opening.rs`).
pub(crate) fn is_read_only(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || condition(error) == Some("READONLY")
}

/// Returns whether the server would also reject any other request, because it loads its data, is busy, or its cluster
/// is down. A cluster that is up may still lack single slots.
pub(crate) fn rejects_all(error: &RedisError) -> bool {
    use ServerErrorKind as Server;
    match error.kind() {
        ErrorKind::Server(Server::BusyLoading | Server::MasterDown) => true,
        ErrorKind::Server(Server::ClusterDown) => detail(error).contains("cluster is down"),
        _ => condition(error) == Some("BUSY"),
    }
}

pub(crate) fn is_redirection(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, Moved};
    matches!(error.kind(), ErrorKind::Server(Moved | Ask))
}

/// Returns whether the server has rejected a request because of its key alone, so that this says nothing about others: the
/// user may not access it, in the words of Redis 6.2 ("one of the keys") or later ("a key"). Other missing permissions
/// have the same code.
pub(crate) fn is_about_key(error: &StoreError) -> bool {
    driver_error(error).is_some_and(|error| {
        let detail = detail(error);
        error.code() == Some("NOPERM") && detail.contains("access") && detail.contains(" key")
    })
}

/// Returns whether the error of a request about several keys may be that of one of them, so that requests about the
/// others may succeed. The slot of the keys may be moving, and no longer have some of them.
pub(crate) fn may_be_about_one_key(error: &StoreError) -> bool {
    let is_moving =
        |error: &RedisError| error.kind() == ErrorKind::Server(ServerErrorKind::TryAgain);
    error.failure_class().is_rejected() || driver_error(error).is_some_and(is_moving)
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

/// The reason why a request fails that was left to a task of another runtime.
pub(crate) const RUNTIME_ENDED: &str = "the runtime that sent the request has ended";

#[cfg(test)]
mod tests {
    use std::io;

    use super::FailureClass::{AccessDenied, NotExecuted, Permanent, PermissionMissing};
    use super::*;
    use crate::base::error::Mistake::{Login, NotALock, Other, Permission};

    /// The error that a server's line stands for.
    fn error(line: &str) -> RedisError {
        let reply = redis::parse_redis_value(format!("{line}\r\n").as_bytes());
        reply.unwrap().extract_error().unwrap_err()
    }

    fn assert_class(lines: &[&str], class: FailureClass, mistake: Option<Mistake>) {
        for line in lines {
            assert_eq!(classify(&error(line)), (class, mistake), "{line}");
        }
    }

    #[test]
    fn a_temporary_failure_of_writes_is_retried() {
        let in_script = "-ERR Error running script (call to f_6b1b): @user_script:38: \
                         @user_script: 38: -OOM command not allowed when used memory > 'maxmemory'.";
        let lines = [
            "-OOM command not allowed when used memory > 'maxmemory'.",
            "-READONLY You can't write against a read only replica.",
            "-LOADING Redis is loading the dataset in memory",
            "-BUSY Redis is busy running a script.",
            "-NOREPLICAS Not enough good replicas to write.",
            "-MISCONF Redis is configured to save RDB snapshots",
            "-CLUSTERDOWN The cluster is down",
            "-MOVED 3999 127.0.0.1:6381",
            in_script,
            &in_script.replace("OOM", "READONLY"),
            "-@user_script: 14: -OOM command not allowed when used memory > 'maxmemory'.",
        ];
        assert_class(&lines, NotExecuted, None);
    }

    #[test]
    fn a_permanent_failure_is_not_retried() {
        let foreign = [
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
            "-ERR hash value is not an integer script: 6b1b, on @user_script:14.",
            "-ERR Error running script (call to f_6b1b): @user_script:38: -WRONGTYPE Operation",
            "-@user_script: 14: -WRONGTYPE Operation against a key holding the wrong kind of value",
            "-NOLOCK the hash is no lock",
        ];
        assert_class(&foreign, Permanent, Some(NotALock));
        let crossed = ["-CROSSSLOT Keys in request don't hash to the same slot"];
        assert_class(&crossed, Permanent, Some(Other));
    }

    #[test]
    fn a_missing_permission_is_no_permanent_failure() {
        let lines = [
            "-NOPERM this user has no permissions to run the 'evalsha' command",
            "-NOPERM No permissions to access a key",
            "-NOPERM ACL failure in script: User locker has no permissions to run the 'del' command",
            "-ERR NOPERM ACL failure in script: No permissions to access a key script: 6b1b, on @user_script:14.",
            "-ERR Error running script (call to f_6b1b): @user_script:38: @user_script: 38: \
             The user executing the script can't run this command or subcommand",
        ];
        assert_class(&lines, PermissionMissing, Some(Permission));
    }

    /// These faults can go away: a password is changed back, a proxy finds its server again.
    #[test]
    fn a_rejected_login_may_be_corrected() {
        let logins = [
            "-WRONGPASS invalid username-password pair or user is disabled.",
            "-NOAUTH Authentication required.",
            "-DENIED Redis is running in protected mode",
        ];
        assert_class(&logins, AccessDenied, Some(Login));
        let other_servers = [
            "-ERR unknown command 'EVALSHA', with args beginning with:",
            "-ERR This instance has cluster support disabled",
        ];
        assert_class(&other_servers, AccessDenied, Some(Other));
        let outages = [
            "-ERR max number of clients reached",
            "-ERR upstream failure",
            "-no upstream host",
        ];
        assert_class(&outages, AccessDenied, None);
        let of_provider = (ErrorKind::AuthenticationFailed, "no token today").into();
        assert_eq!(classify(&of_provider), (AccessDenied, None));
    }

    #[test]
    fn a_cluster_server_at_a_single_address_names_the_right_url() {
        for (line, expected) in [
            ("-MOVED 3999 127.0.0.1:6381", true),
            ("-ASK 3999 127.0.0.1:6381", true),
            ("-TRYAGAIN Multiple keys request", false),
            ("-CLUSTERDOWN The cluster is down", false),
        ] {
            assert_eq!(is_redirection(&error(line)), expected, "{line}");
        }
        let moved = request_error("acquire", &"here".into(), error("-MOVED 1 127.0.0.1:7"));
        let told = one_of_cluster(&moved, "acquire").cause().to_string();
        assert!(told.contains("redis+cluster://"), "{told}");
    }

    #[test]
    fn a_rejected_connection_differs_from_a_rejected_request() {
        for (line, expected) in [
            ("-LOADING Redis is loading the dataset in memory", true),
            ("-MASTERDOWN Link with MASTER is down", true),
            ("-READONLY You can't write against a replica.", false),
            ("-BUSY Redis is busy running a script.", true),
            ("-CLUSTERDOWN The cluster is down", true),
            ("-CLUSTERDOWN Hash slot not served", false),
            ("-OOM command not allowed", false),
            ("-NOREPLICAS Not enough good replicas to write.", false),
            ("-MOVED 1 10.0.0.1:7", false),
            ("-NOPERM No permissions to access a key", false),
        ] {
            assert_eq!(rejects_all(&error(line)), expected, "{line}");
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
    fn a_rejected_key_differs_from_a_rejected_command() {
        for (line, is_key) in [
            ("-NOPERM No permissions to access a key", true),
            (
                "-NOPERM no permissions to access one of the keys used",
                true,
            ),
            ("-NOPERM no permissions to run the 'evalsha' command", false),
            ("-NOPERM no permissions to run the 'hkeys' command", false),
            ("-NOPERM No permissions to access a channel", false),
            ("-ERR invalid key access", false),
        ] {
            let error = request_error("acquire", &"here".into(), error(line));
            assert_eq!(is_about_key(&error), is_key, "{line}");
        }
    }
}

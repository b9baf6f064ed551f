//! The mistakes in a program, or in a setting, that the driver's errors show.

use redis::{ErrorKind, RedisError};

use crate::base::error::{Effect, Mistake};

/// The mistake that the error of a request with this effect shows, if it is no failure of the server.
pub(crate) fn mistake(error: &RedisError, effect: Effect) -> Option<Mistake> {
    let is_login = error.kind() == ErrorKind::AuthenticationFailed
        && error.to_string().starts_with(RESP2_LOGIN);
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "DENIED") => Some(Mistake::Login),
        _ if effect == Effect::Forbidden => Some(Mistake::Permission),
        _ if is_login => Some(Mistake::Login),
        // A cluster was named, or a server that runs scripts, and it is none.
        _ if is_unknown_command(error) || is_no_cluster(error) => Some(Mistake::Other),
        _ if effect != Effect::Refused => None,
        code => {
            let detail = error.detail().unwrap_or_default();
            let is_foreign = matches!(code, Some("WRONGTYPE" | "NOLOCK"))
                || detail.contains("WRONGTYPE")
                || detail.contains("is not an integer");
            Some(if is_foreign {
                Mistake::NotALock
            } else {
                Mistake::Other
            })
        }
    }
}

/// The driver's error for a login that RESP2 rejects. A provider of credentials that fails has the same kind.
const RESP2_LOGIN: &str = "Password authentication failed";

/// Returns whether the server, or a proxy before it, does not have the command.
pub(crate) fn is_unknown_command(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default().to_ascii_lowercase();
    let words = ["unknown command", "unsupported command"];
    words.iter().any(|words| detail.contains(words))
}

/// Returns whether the server is asked as one of a cluster, and is none.
fn is_no_cluster(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.contains("cluster support disabled")
}

#[cfg(test)]
mod tests {
    use super::super::failure::{effect, tests::error};
    use super::*;
    use crate::base::error::Mistake::{Login, NotALock, Other, Permission};

    #[test]
    fn a_mistake_is_told_from_an_outage() {
        for (line, expected) in [
            (
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
                Some(NotALock),
            ),
            (
                "-ERR Error running script (call to f_6b1b): @user_script:38: -WRONGTYPE Operation",
                Some(NotALock),
            ),
            (
                "-@user_script: 14: -WRONGTYPE Operation against a key",
                Some(NotALock),
            ),
            (
                "-ERR hash value is not an integer script: 6b1b, on @user_script:14.",
                Some(NotALock),
            ),
            ("-NOLOCK the hash is no lock", Some(NotALock)),
            (
                "-NOPERM this user has no permissions to run the 'evalsha' command",
                Some(Permission),
            ),
            ("-NOPERM No permissions to access a key", Some(Permission)),
            (
                "-ERR Error running script (call to f_6b1b): @user_script:3: The user executing the script can't run this command or subcommand script",
                Some(Permission),
            ),
            ("-NOAUTH Authentication required.", Some(Login)),
            (
                "-WRONGPASS invalid username-password pair or user is disabled.",
                Some(Login),
            ),
            ("-DENIED Redis is running in protected mode", Some(Login)),
            (
                "-ERR unknown command 'EVALSHA', with args beginning with:",
                Some(Other),
            ),
            (
                "-ERR This instance has cluster support disabled",
                Some(Other),
            ),
            (
                "-CROSSSLOT Keys in request don't hash to the same slot",
                Some(Other),
            ),
            ("-ERR max number of clients reached", None),
            ("-ERR upstream failure", None),
            (
                "-OOM command not allowed when used memory > 'maxmemory'.",
                None,
            ),
            (
                "-READONLY You can't write against a read only replica.",
                None,
            ),
            ("-LOADING Redis is loading the dataset in memory", None),
            ("-CLUSTERDOWN The cluster is down", None),
            ("-MOVED 3999 127.0.0.1:6381", None),
        ] {
            let error = error(line);
            assert_eq!(mistake(&error, effect(&error)), expected, "{line}");
        }
        let from_provider: RedisError = (ErrorKind::AuthenticationFailed, "no token today").into();
        assert_eq!(mistake(&from_provider, effect(&from_provider)), None);
    }
}

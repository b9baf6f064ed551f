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

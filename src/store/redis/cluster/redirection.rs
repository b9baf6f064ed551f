//! Where else a request may have to go, as the answer to it says.

use redis::{ErrorKind, ServerErrorKind};

use super::map::named;
use crate::store::redis::{address::Place, call::Way, connection::Cause, failure::condition};

/// Where a server says that a request is to go, and how.
pub(super) fn redirection(cause: &Cause, asked: &Place) -> Option<(Place, Way)> {
    let Cause::Driver(error) = cause else {
        return None;
    };
    let way = match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => Way::Plain,
        ErrorKind::Server(ServerErrorKind::Ask) => Way::Asking,
        _ => return None,
    };
    let (address, _) = error.redirect_node()?;
    Some((redirected(address, asked)?, way))
}

/// Whether another server may answer by now: this one has lost sight of most others, or is no primary any more.
pub(super) fn may_be_elsewhere(cause: &Cause) -> bool {
    let Cause::Driver(error) = cause else {
        return false;
    };
    matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown | ServerErrorKind::ReadOnly
        )
    ) || matches!(condition(error), Some("READONLY" | "NOREPLICAS"))
}

/// The place in a redirection of the server at `asked`: `host:port`, or `:port` where it does not know its own name.
fn redirected(address: &str, asked: &Place) -> Option<Place> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(Place {
        host: named(host, asked),
        port: port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, port: u16) -> Place {
        Place {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn a_redirection_without_a_host_leads_to_another_port() {
        let asked = place("asked", 1);
        assert_eq!(redirected("10.0.0.1:7", &asked), Some(place("10.0.0.1", 7)));
        assert_eq!(redirected("[::1]:7", &asked), Some(place("::1", 7)));
        assert_eq!(redirected(":7", &asked), Some(place("asked", 7)));
        assert_eq!(redirected("x", &asked), None);
    }
}

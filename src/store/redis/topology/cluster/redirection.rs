//! Where else a request may have to go, as the answer to it says.

use redis::{ErrorKind, ServerErrorKind};

use super::map::named;
use crate::store::redis::connect::connection::Cause;
use crate::store::redis::link::address::{Place, host_and_port};
use crate::store::redis::wire::call::Way;
use crate::store::redis::wire::failure::condition;

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
    let (host, port) = host_and_port(address)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(Place::new(named(host, asked), port?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_without_a_host_leads_to_another_port() {
        let asked = Place::new("asked", 1);
        let redirected = |address| redirected(address, &asked).map(|it| (it.host, it.port));
        let to = |host: &str| Some((host.to_owned(), 7));
        assert_eq!(redirected("10.0.0.1:7"), to("10.0.0.1"));
        // A server writes no brackets.
        assert_eq!(redirected("::1:7"), to("::1"));
        assert_eq!(redirected("[::1]:7"), to("::1"));
        assert_eq!(redirected(":7"), to("asked"));
        assert_eq!(redirected("x"), None);
    }
}

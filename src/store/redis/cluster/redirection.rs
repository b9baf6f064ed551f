//! What the error of a server says about where a request belongs.

use deadpool_redis::redis::{ErrorKind, ServerErrorKind};

use super::map::redirected;
use crate::store::redis::{
    address::Place,
    connection::Cause,
    script::{Way, condition},
};

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
    ) || condition(error) == Some("READONLY")
}

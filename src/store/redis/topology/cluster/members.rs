//! The servers of a cluster.

use std::sync::Arc;

use super::Cluster;
use crate::{
    base::error::StoreError,
    store::{
        members::{Member, Role},
        redis::{link::source::Timeouts, members::member},
    },
};

impl Cluster {
    /// Those that have slots, and their replicas.
    pub(in crate::store::redis) async fn members(
        self: &Arc<Self>,
        timeouts: Timeouts,
    ) -> Result<Vec<Member>, StoreError> {
        self.learn().await?;
        let places = {
            let known = self.known.lock();
            let places = known.places.iter().map(|place| {
                let role = if known.nodes.contains_key(place) {
                    Role::Primary
                } else {
                    Role::Replica
                };
                (role, place.clone())
            });
            places.collect::<Vec<_>>()
        };
        let members = places.into_iter().map(|(role, place)| {
            let address = self.server.at(&place);
            member(role, address, timeouts)
        });
        Ok(members.collect())
    }
}

//! The sentinels, and the servers that they know.

use std::sync::Arc;

use super::Sentinels;
use crate::{
    base::error::StoreError,
    store::{
        members::{Member, Role},
        redis::{
            link::{address::Place, source::Timeouts},
            members::{listed, member},
            topology::ask_most::GRACE,
        },
    },
};

impl Sentinels {
    /// All of them: the sentinels, the primary that they name, and what they know as its replicas, be they well or not.
    pub(in crate::store::redis) async fn members(
        &self,
        timeouts: Timeouts,
    ) -> Result<Vec<Member>, StoreError> {
        let verdict = self.ask(timeouts, GRACE).await?;
        let places: Vec<Place> = self.known.lock().keys().cloned().collect();
        let role = Role::Sentinel(self.name.to_string());
        let sentinels = places.iter().map(|place| {
            let address = self.sentinel.at(place);
            member(role.clone(), address, timeouts)
        });
        let mut members: Vec<_> = sentinels.collect();
        let words = ["SENTINEL", "REPLICAS", &self.name].map(|word| word.as_bytes().to_vec());
        let mut replicas = Vec::new();
        for sentinel in &members {
            // One that is away may be among them.
            let asked = Arc::clone(&sentinel.commands).command(words.to_vec()).await;
            if let Ok(reply) = asked {
                replicas = listed(&reply);
                break;
            }
        }
        let primary = (Role::Primary, verdict.named.place.clone());
        let replicas = replicas.into_iter().map(|place| (Role::Replica, place));
        let others = replicas.filter(|(_, place)| *place != verdict.named.place);
        let servers = [primary].into_iter().chain(others);
        members.extend(servers.map(|(role, place)| member(role, self.server.at(&place), timeouts)));
        Ok(members)
    }
}

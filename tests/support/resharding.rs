//! Resharding: a slot of a cluster moves from one primary to another.

use super::cluster::Cluster;

/// A slot that is moving. Until it is [finished](Self::finish), clients are redirected by `ASK` for the keys that the
/// old owner no longer has.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl Cluster {
    /// Begins to move the slot (`SETSLOT IMPORTING`, `SETSLOT MIGRATING`). No key moves yet.
    pub async fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        let from = self.owner_of_slot(slot).await;
        let (source, target) = (&self.ids[from], &self.ids[to]);
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {source}");
        self.nodes[to].ask(&importing).await;
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {target}");
        self.nodes[from].ask(&migrating).await;
        SlotMove {
            cluster: self,
            slot,
            from,
            to,
        }
    }

    /// Moves the slot with all its keys, in all steps, and waits until all running nodes report that.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to).await;
        moving.move_all_keys().await;
        moving.finish().await;
    }

    /// Moves the slot with all its keys in one step, if the server can: Valkey 9.0 (`CLUSTER MIGRATESLOTS`), Redis 8.4
    /// (`CLUSTER MIGRATION IMPORT`). Returns whether it can.
    pub async fn move_slot_at_once(&self, slot: u16, to: usize) -> bool {
        let from = self.owner_of_slot(slot).await;
        let target = &self.ids[to];
        let given = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}");
        let taken = format!("CLUSTER MIGRATION IMPORT {slot} {slot}");
        let can = self.tries(from, &given).await || self.tries(to, &taken).await;
        if can {
            self.until_owner(slot, |owner| owner == to).await;
        }
        can
    }

    /// Sends a command that the server may not know. Returns whether it knows it.
    async fn tries(&self, node: usize, command: &str) -> bool {
        match self.nodes[node].try_ask(command).await {
            Ok(_) => true,
            Err(error) => {
                let text = error.to_string().to_lowercase();
                assert!(text.contains("unknown subcommand"), "{error}");
                false
            }
        }
    }
}

impl SlotMove<'_> {
    /// Moves these keys, which the old owner has.
    pub async fn move_keys(&self, keys: &[&str]) {
        let cluster = self.cluster;
        let auth = cluster.password.as_ref();
        let auth = auth.map(|password| format!("AUTH {password} "));
        let keys: Vec<_> = keys.iter().map(|key| format!("{key:?}")).collect();
        let migrate = format!(
            "MIGRATE 127.0.0.1 {} \"\" 0 20000 {}KEYS {}",
            cluster.nodes[self.to].port(),
            auth.unwrap_or_default(),
            keys.join(" "),
        );
        cluster.nodes[self.from].ask(&migrate).await;
    }

    /// Moves all keys that the old owner has at this moment. Their names have no line breaks.
    pub async fn move_all_keys(&self) {
        let list = format!("CLUSTER GETKEYSINSLOT {} 1000", self.slot);
        loop {
            let keys = self.cluster.nodes[self.from].ask(&list).await;
            let keys: Vec<_> = keys.lines().collect();
            if keys.is_empty() {
                return;
            }
            self.move_keys(&keys).await;
        }
    }

    /// Gives the slot to its new owner (`SETSLOT NODE`, on the new owner first), and waits until all running nodes
    /// report that.
    ///
    /// # Panics
    ///
    /// Panics if the old owner still has keys of the slot.
    pub async fn finish(self) {
        let SlotMove { cluster, slot, .. } = self;
        let command = format!("CLUSTER SETSLOT {slot} NODE {}", cluster.ids[self.to]);
        cluster.nodes[self.to].ask(&command).await;
        cluster.nodes[self.from].ask(&command).await;
        for (place, node) in cluster.nodes.iter().enumerate() {
            let is_other = place != self.to && place != self.from;
            // A replica learns it from its primary.
            if is_other && node.is_running() && node.is_primary().await {
                node.ask(&command).await;
            }
        }
        cluster.until_owner(slot, |owner| owner == self.to).await;
    }
}

//! Tests with several servers: a primary with sentinels, and a cluster.
//!
//! They are in a separate binary, because each test starts six servers.
//!
//! `docs/operations.md` says what happens when a server fails. These tests show it:
//!
//! | servers | what happens | tests |
//! |---|---|---|
//! | One server | killed, restarted without its data | `leases::outage::a_restart_without_data_is_noticed_at_once` |
//! | One server | stopped, or cut off | `leases::outage::a_lock_is_kept_if_its_lease_lasts_longer` |
//! | One server | clock set back | `clock_steps::a_clock_stepped_back_keeps_the_others_out_for_longer` |
//! | Sentinel | primary killed | `sentinel::unplanned::a_lock_and_its_queue_outlive_a_primary_that_is_killed`, `sentinel::unplanned::a_lock_that_was_not_replicated_is_lost_and_its_holder_is_told` |
//! | Sentinel | primary stopped | `sentinel::unplanned::a_lock_and_its_queue_outlive_a_primary_that_stands_still` |
//! | Sentinel | primary shut down | `sentinel::unplanned::a_lock_and_its_queue_outlive_a_primary_that_is_shut_down` |
//! | Sentinel | `SENTINEL FAILOVER` | `sentinel::watching::a_failover_that_a_sentinel_is_told_to_make_loses_nothing_that_was_replicated` |
//! | Sentinel | primary cut off from replicas and sentinels, but not from its clients | `sentinel::refusals::a_primary_without_replicas_is_replaced` |
//! | Sentinel | the old primary comes back | `sentinel::unplanned::locks_stay_where_they_are_when_the_old_primary_comes_back`, `sentinel::refusals::a_server_that_is_no_primary_is_left_and_not_used_again_until_it_is_one` |
//! | Sentinel | a sentinel killed or stopped | `sentinel::watching::a_sentinel_that_stands_still_delays_no_failover` |
//! | Sentinel | all sentinels unavailable | `sentinel::watching::locks_work_without_sentinels_and_follow_them_afterwards`, `sentinel::watching::a_first_connection_without_sentinels_is_an_error_that_names_them` |
//! | Cluster | primary killed, or stopped | `cluster::failover::a_replicated_lock_survives_the_death_of_its_node`, `cluster::failover::a_replicated_lock_survives_the_silence_of_its_node`, `cluster::outage::locks_elsewhere_go_on_while_a_node_is_silent_or_dead`, `cluster::failover::a_lock_that_the_replica_never_had_is_lost_at_once` |
//! | Cluster | `CLUSTER FAILOVER` | `cluster::failover::a_lock_survives_a_planned_failover` |
//! | Cluster | primary cut off from the others | `cluster::down::a_node_that_is_cut_off_from_the_others_is_left` |
//! | Cluster | a primary and its replica unavailable | `cluster::down::a_cluster_that_is_down_is_waited_for` |
//! | Cluster | slot moved in steps | `cluster::moves::requests_wait_while_the_keys_of_a_lock_are_in_two_nodes`, `cluster::moves::a_release_that_is_broken_off_loses_no_waiter`, `cluster::moves::callers_take_turns_while_their_slot_moves_to_and_fro` |
//! | Cluster | slot moved atomically | `cluster::moves::a_lock_stays_held_when_its_slot_moves_at_once` |
//! | Confirmed by replicas | the primary fails after its reply, before its replicas have the lock | `confirmation::a_lock_that_replicas_do_not_have_is_given_back` |
//! | Confirmed by replicas | primary cut off from its replicas, but not from the holder | `confirmation::a_renewal_that_replicas_do_not_have_is_not_believed` |
//! | Confirmed by replicas | a lock that another process has released to this one | `confirmation::a_lock_that_was_moved_here_counts_only_once_replicas_have_it` |
//! | Confirmed by replicas | one replica of two is unavailable | `confirmation::a_lock_that_replicas_do_not_have_is_given_back` |
//! | Confirmed by replicas | no replica at all | `confirmation::a_server_without_replicas_confirms_nothing` |

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test ends where its ground gives way"
)]

#[path = "../support/mod.rs"]
mod support;

mod cluster {
    mod access;
    mod commands;
    mod down;
    mod drops;
    mod failover;
    mod inbox;
    pub(crate) mod kit;
    mod moves;
    mod outage;
    mod pace;
    mod seeds;
    mod several;
}

mod confirmation;
#[cfg(feature = "credentials")]
mod credentials;

mod sentinel {
    pub(crate) mod ground;
    mod in_the_middle;
    mod logins;
    mod pace;
    mod refusals;
    mod unplanned;
    mod watching;
}

//! Conformance tests: what every store must do. The cases use only the trait `Store`; a harness starts the store and
//! moves its time. A new store adds a harness and one line here.
#![allow(clippy::unwrap_used, reason = "test code")]

mod acquire;
#[path = "../../support/asks.rs"]
mod asks;
mod bench;
mod ghosts;
mod hold;
mod memory_store;
#[path = "../../support/notices.rs"]
mod notices;
mod queue;
mod quorum_store;
mod read;
mod seen;
mod semaphore;
mod shared;

#[path = "../../support/redis.rs"]
mod redis_server;
#[path = "../../support/twins.rs"]
mod twins;

use bench::Harness;

/// Makes a test of every case of a module with a harness.
macro_rules! conformance {
    ($store:ident, $harness:ty: $($module:ident { $($case:ident),+ $(,)? })+) => {
        mod $store {
            $(mod $module {
                $(#[tokio::test]
                async fn $case() {
                    let harness = <$harness as crate::Harness>::start().await;
                    crate::$module::$case(&crate::bench::Bench::new(harness)).await;
                })+
            })+
        }
    };
}

macro_rules! every_store {
    ($($store:ident: $harness:ty),+ $(,)?) => {
        $(conformance! { $store, $harness:
            acquire {
                a_free_lock_is_granted_and_a_held_one_is_refused,
                tokens_rise_after_every_kind_of_end,
                a_min_token_raises_the_token_up_to_a_limit,
                a_repeat_returns_the_same_lease,
                an_older_attempt_is_overtaken,
                an_older_attempt_after_the_refusal_of_a_newer_one_changes_nothing,
                other_terms_are_refused,
                an_ended_request_is_remembered_for_10_s,
                a_dropped_grant_is_cut_short_and_a_retry_restores_its_ttl,
                locks_with_other_names_are_independent,
                one_of_several_concurrent_requests_is_granted,
            }
            queue {
                waiters_are_offered_the_lock_in_order,
                released_locks_are_granted_in_order,
                a_repeated_claim_returns_the_same_lease,
                an_offer_that_lapses_goes_to_the_next_waiter_and_the_first_keeps_its_queue_position,
                a_waiter_that_gives_up_leaves_the_queue,
                a_dropped_waiter_is_skipped_and_its_retry_keeps_its_queue_position,
                a_dropped_waiter_leaves_the_queue_after_the_grace_period,
                a_dropped_waiter_declines_its_offer_at_once,
                a_cleanup_unbinds_only_its_own_call,
                a_waiter_that_declines_is_skipped_until_it_claims,
                a_handed_over_lock_is_passed_on_if_the_call_was_dropped,
                a_claim_returns_the_lease_that_was_handed_over,
                a_try_ends_the_wait_of_its_own_request,
                a_full_queue_refuses_new_waiters_but_not_retries,
                an_expiry_wakes_the_next_waiter_without_a_command,
                claims_and_give_ups_of_an_unknown_request_answer_unknown,
                a_waiter_learns_an_upper_bound_of_its_queue_position,
            }
            hold {
                a_repeated_release_returns_the_same_end_and_releases_no_other_lease,
                a_renewal_never_shortens_and_never_revives_a_lease,
                a_stream_renews_its_lease_and_never_revives_it,
                only_the_newest_attachment_renews_the_lease,
                a_stream_that_ends_revokes_only_leases_still_attached_to_it,
                force_release_revokes_only_the_lease_with_the_expected_token,
                a_stream_is_notified_once_of_the_end_of_its_lease,
                many_leases_are_renewed_together_each_with_its_own_outcome,
                a_lease_may_be_attached_by_its_grant,
                no_renewal_extends_a_lease_beyond_its_max_hold,
                a_lock_stays_unavailable_for_its_min_hold,
                a_late_release_or_an_operator_ends_a_lock_delay,
            }
            shared {
                readers_share_a_lock_and_a_writer_waits_for_all_of_them,
                a_reader_never_overtakes_a_writer_that_waits,
                each_reader_has_a_lease_of_its_own,
                a_writer_learns_how_the_writer_before_ended_though_readers_came_between,
            }
            semaphore {
                permits_are_granted_up_to_the_limit,
                a_request_for_all_permits_is_not_overtaken,
                the_lowest_free_slot_is_given_and_a_repeat_tells_it,
                a_raised_limit_serves_those_that_wait,
                a_lowered_limit_ends_no_lease_and_refuses_what_exceeds_it,
                programs_that_disagree_on_the_limit_are_told,
                an_expired_lease_gives_its_permits_back,
                an_exclusive_request_waits_for_all_permits,
                a_lock_is_shared_or_a_semaphore,
            }
            ghosts {
                the_place_of_a_reader_keeps_writers_out_for_its_lock_delay,
                the_permit_and_the_slot_of_a_released_lease_stay_used_for_its_min_hold,
            }
            seen {
                a_description_is_seen_until_one_with_a_higher_number,
                those_who_wait_are_listed_in_order_and_in_pages,
                nobody_waits_behind_more_than_max_waiters,
                a_holder_that_asked_is_told_once_that_it_is_wanted,
            }
            read {
                a_view_shows_the_holder_and_the_last_end,
                a_token_is_current_until_its_lease_ends,
                a_listing_has_each_lock_in_use_once,
                events_arrive_in_order_and_only_if_the_store_is_watched,
                an_event_tells_that_a_lease_ended_by_its_max_hold,
            }
        })+
    };
}

every_store! {
    memory: crate::memory_store::MemoryHarness,
    twin: crate::quorum_store::QuorumHarness<crate::twins::Twins<1>>,
    three_twins: crate::quorum_store::QuorumHarness<crate::twins::Twins<3>>,
    three_twins_three_servers: crate::quorum_store::QuorumHarness<crate::twins::Twins<3>, 3>,
    shared_twin: crate::quorum_store::QuorumHarness<crate::twins::Twins<1>, 1, true>,
    shared_twin_three_servers: crate::quorum_store::QuorumHarness<crate::twins::Twins<1>, 3, true>,
    one_node: crate::quorum_store::QuorumHarness<crate::quorum_store::Servers<1>>,
    three_nodes: crate::quorum_store::QuorumHarness<crate::quorum_store::Servers<3>>,
}

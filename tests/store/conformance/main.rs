//! What every store must do, whatever it is made of. The cases know only the store trait; a harness makes the store and
//! lets its time pass. A new store adds a harness and one line here, and runs them unchanged.
#![allow(clippy::unwrap_used)] // also in what the tests share

mod acquire;
mod bench;
mod hold;
mod memory_store;
mod queue;
mod read;
mod redis_store;

#[path = "../../support/redis.rs"]
mod redis_server;

use bench::Harness;

/// Runs every case of a module against a harness, each as a test of its own.
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
                a_free_lock_is_granted_and_a_held_one_is_not,
                tokens_rise_over_every_kind_of_end,
                a_min_token_is_a_floor_within_its_bound,
                a_repeat_answers_the_same_lease,
                an_older_attempt_is_overtaken,
                an_attempt_that_comes_after_a_newer_one_was_refused_changes_nothing,
                other_terms_are_refused,
                an_ended_request_is_remembered_for_ten_seconds,
                a_dropped_grant_is_cut_and_a_retry_re_arms_it,
                locks_of_other_names_do_not_meddle,
                racing_for_one_lock_one_wins,
            }
            queue {
                waiters_are_offered_the_lock_in_order,
                what_is_released_is_had_in_order,
                a_claim_repeated_answers_the_same_lease,
                an_offer_that_is_not_claimed_goes_to_the_next_and_its_waiter_keeps_its_place,
                a_waiter_that_gives_up_is_out_of_the_line,
                a_dropped_waiter_is_skipped_and_its_retry_finds_its_place,
                a_dropped_waiter_is_forgotten_after_its_grace,
                a_dropped_waiter_declines_its_offer_at_once,
                a_cleanup_takes_away_its_own_call_and_no_other,
                a_waiter_that_declines_lets_the_next_one_pass_and_comes_back_by_a_claim,
                what_is_granted_unasked_is_declined_as_by_a_dropped_call,
                what_is_granted_unasked_is_the_lease_that_a_claim_answers,
                a_try_ends_the_wait_of_its_own_request,
                the_queue_is_bounded,
                an_expiry_serves_the_next_without_any_command,
                nobody_knows_a_request_that_never_was,
                a_waiter_knows_how_many_are_before_it_at_most,
            }
            hold {
                a_release_is_repeated_with_the_same_answer_and_hits_nobody_else,
                a_renewal_never_shortens_and_never_revives,
                a_stream_keeps_a_lease_and_never_revives_it,
                the_newest_attachment_keeps_the_lease,
                a_stream_that_ends_takes_back_only_what_it_still_keeps,
                a_force_release_hits_the_token_it_names,
                the_end_of_a_lease_is_told_to_its_stream_once,
                many_leases_are_renewed_at_once_each_with_its_own_outcome,
                a_lease_may_be_attached_from_its_grant_on,
            }
            read {
                a_view_shows_the_holder_and_the_last_end,
                a_token_is_worth_something_while_its_lease_lives,
                a_listing_shows_each_lock_in_use_once,
                events_come_in_order_and_only_if_somebody_watches,
            }
        })+
    };
}

every_store! {
    memory: crate::memory_store::MemoryHarness,
    redis: crate::redis_store::RedisHarness,
}

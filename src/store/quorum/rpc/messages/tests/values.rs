//! Random frames of all kinds.

use crate::store::quorum::paxos::ballot::Stamp;
use crate::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, RequestId},
        lease::MaxHold,
        limits::{HOLDERS_SHOWN, REASON_BYTES_MAX},
        mode::ModeName,
        name::Reason,
        outcome::{
            AcquireOutcome, ClassicHold, Contention, DelayView, DescribeOutcome, Fate, Gone, Grant, HeldPermits,
            HolderExtra, HolderView, LockView, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome, SemaphoreView,
            SharedView, WaiterView, WaitersView,
        },
    },
    store::{
        Event, EventKind, Notice,
        fields::values::{
            some_end, some_holder, some_id, some_identity, some_lock_name, some_metadata, some_owner, some_permits,
            some_span, some_terms, some_time, some_token,
        },
        quorum::rpc::messages::*,
    },
};
use proptest::{collection::vec, option, prelude::*};
use std::num::NonZeroU32;

pub(super) fn some_server() -> impl Strategy<Value = ServerId> {
    any::<[u8; 12]>().prop_map(ServerId)
}

pub(super) fn some_ballot() -> impl Strategy<Value = Ballot> {
    (any::<u64>(), some_server()).prop_map(|(round, server)| Ballot { round, server })
}

fn some_call() -> impl Strategy<Value = Call> {
    (some_id(), any::<u32>(), any::<u64>()).prop_map(|(request, attempt, id)| Call {
        request: RequestId(request),
        attempt,
        id: CallId(id),
    })
}

fn some_lease_id() -> impl Strategy<Value = LeaseId> {
    some_id().prop_map(LeaseId)
}

fn some_attachment() -> impl Strategy<Value = AttachmentId> {
    some_id().prop_map(AttachmentId)
}

fn some_candidate() -> impl Strategy<Value = Candidate> {
    (some_lease_id(), some_id(), option::of(some_attachment())).prop_map(|(lease_id, grant_id, attachment)| Candidate {
        lease_id,
        grant_id: GrantId(grant_id),
        attachment,
    })
}

fn some_acquire() -> impl Strategy<Value = Acquire> {
    (some_call(), some_terms(), any::<bool>(), some_candidate()).prop_map(|(call, terms, wait, candidate)| Acquire {
        call,
        terms,
        wait,
        candidate,
    })
}

fn some_reason() -> impl Strategy<Value = Reason> {
    "\\PC{1,30}".prop_filter_map("no reason", |reason| Reason::new(reason).ok())
}

fn some_command() -> impl Strategy<Value = Command> {
    let attached = || (some_lease_id(), some_attachment());
    prop_oneof![
        some_acquire().prop_map(Command::Acquire),
        (some_call(), some_candidate()).prop_map(|(call, candidate)| Command::Claim(call, candidate)),
        some_call().prop_map(Command::GiveUp),
        some_call().prop_map(Command::DropCall),
        (some_id(), any::<u32>())
            .prop_map(|(request, attempt)| Command::Decline { request: RequestId(request), attempt }),
        some_lease_id().prop_map(Command::Release),
        (some_lease_id(), option::of(some_span())).prop_map(|(lease_id, ttl)| Command::Renew { lease_id, ttl }),
        attached().prop_map(|(lease_id, attachment)| Command::RenewKept(lease_id, attachment)),
        (attached(), any::<u32>()).prop_map(|((lease_id, attachment), attempt)| Command::Attach {
            lease_id,
            attempt,
            attachment
        }),
        attached().prop_map(|(lease_id, attachment)| Command::Detach(lease_id, attachment)),
        attached().prop_map(|(lease_id, attachment)| Command::Disconnect(lease_id, attachment)),
        (some_token(), some_reason()).prop_map(|(expected, reason)| Command::ForceRelease { expected, reason }),
        option::of(some_token()).prop_map(|token| Command::View { token }),
        (some_lease_id(), some_metadata(), option::of(some_holder()), any::<u64>())
            .prop_map(|(lease_id, metadata, holder, number)| Command::Describe { lease_id, metadata, holder, number }),
        (option::of(any::<u64>()), any::<u32>()).prop_map(|(after, max)| Command::ListWaiters { after, max }),
    ]
}

fn some_holder_view() -> impl Strategy<Value = HolderView> {
    let spans = (some_span(), some_span(), some_span());
    let extra = option::of((some_owner(), option::of(some_identity()), any::<u64>()));
    (some_holder(), some_metadata(), some_id(), some_token(), spans, (option::of(some_permits()), extra)).prop_map(
        |(holder, metadata, grant_id, token, (ttl, left, held), (permits, extra))| HolderView {
            holder,
            metadata,
            grant_id: GrantId(grant_id),
            token,
            ttl,
            left,
            held,
            permits: permits.map(|permits| HeldPermits { count: permits.count, slot: permits.slot }),
            extra: extra.map(|(owner, identity, description)| Box::new(HolderExtra { owner, identity, description })),
        },
    )
}

fn some_classic() -> impl Strategy<Value = ClassicHold> {
    option::of(some_span()).prop_map(|left| ClassicHold { left })
}

fn some_contention() -> impl Strategy<Value = Box<Contention>> {
    let unavailable = (option::of(some_delay_view()), option::of(some_shared_view()));
    (option::of(some_holder_view()), option::of(some_classic()), any::<usize>(), unavailable).prop_map(
        |(current, classic, waiters, (delay, shared))| {
            let shared = shared.map(Box::new);
            Box::new(Contention { current, classic, waiters, delay, shared })
        },
    )
}

fn some_shared_view() -> impl Strategy<Value = SharedView> {
    let holders = prop::collection::vec(some_holder_view(), 0..=HOLDERS_SHOWN);
    let semaphore =
        (any::<u64>(), some_permits()).prop_map(|(used, permits)| SemaphoreView { used, limit: permits.limit });
    (holders, any::<usize>(), any::<bool>(), option::of(semaphore))
        .prop_map(|(holders, count, has_token, semaphore)| SharedView { holders, count, has_token, semaphore })
}

fn some_delay_view() -> impl Strategy<Value = DelayView> {
    (some_holder(), some_token(), some_span()).prop_map(|(holder, token, left)| DelayView { holder, token, left })
}

fn some_view() -> impl Strategy<Value = LockView> {
    (some_contention(), option::of(some_end()), option::of(some_token())).prop_map(
        |(contention, previous_end, newest_token)| {
            let Contention { current, classic, waiters, delay, shared } = *contention;
            LockView { current, classic, waiters, previous_end, newest_token, delay, shared }
        },
    )
}

fn some_grant() -> impl Strategy<Value = Grant> {
    let slot = (option::of(any::<NonZeroU32>()), some_mode_name());
    (some_lease_id(), some_id(), some_token(), some_span(), option::of(some_end()), slot).prop_map(
        |(lease_id, grant_id, token, left, previous_end, (slot, mode))| Grant {
            lease_id,
            grant_id: GrantId(grant_id),
            token,
            left,
            previous_end,
            slot,
            mode,
        },
    )
}

fn some_mode_name() -> impl Strategy<Value = ModeName> {
    prop_oneof![Just(ModeName::Exclusive), Just(ModeName::Shared), Just(ModeName::Semaphore)]
}

fn some_waiters_view() -> impl Strategy<Value = WaitersView> {
    let asked = (some_mode_name(), any::<u32>(), some_span(), any::<bool>());
    let labels = (some_holder(), some_owner(), option::of(some_identity()));
    let waiter = (any::<u64>(), some_id(), labels, asked).prop_map(
        |(position, request, (holder, owner, identity), (mode, permits, waited, is_skipped))| WaiterView {
            position,
            request: RequestId(request),
            holder,
            owner,
            identity,
            mode,
            permits,
            waited,
            is_skipped,
        },
    );
    (some_view(), vec(waiter, 0..4), any::<bool>()).prop_map(|(lock, waiters, has_more)| WaitersView {
        lock,
        waiters,
        has_more,
    })
}

fn some_acquire_outcome() -> impl Strategy<Value = AcquireOutcome> {
    prop_oneof![
        some_grant().prop_map(AcquireOutcome::Granted),
        some_contention().prop_map(AcquireOutcome::Contended),
        Just(AcquireOutcome::Queued),
        some_contention().prop_map(AcquireOutcome::TimedOut),
        Just(AcquireOutcome::Shared),
        Just(AcquireOutcome::Overtaken),
        Just(AcquireOutcome::Ended),
        Just(AcquireOutcome::Unknown),
        Just(AcquireOutcome::OtherTerms),
        any::<u64>().prop_map(AcquireOutcome::MinTokenTooHigh),
        Just(AcquireOutcome::QueueFull),
        Just(AcquireOutcome::TokensExhausted),
        Just(AcquireOutcome::BesideClassic),
        some_permits().prop_map(|permits| AcquireOutcome::LimitMismatch(permits.limit)),
        Just(AcquireOutcome::ModeMismatch),
    ]
}

fn some_gone() -> impl Strategy<Value = Gone> {
    let fate = prop_oneof![some_end().prop_map(Fate::Ended), Just(Fate::Superseded), Just(Fate::Unknown)];
    (fate, option::of(some_token())).prop_map(|(fate, successor)| Gone { fate, successor })
}

fn some_outcome() -> impl Strategy<Value = Outcome> {
    let renewed = (some_token(), some_span(), some_span()).prop_map(|(token, ttl, left)| Renewed { token, ttl, left });
    prop_oneof![
        4 => some_acquire_outcome().prop_map(Outcome::Acquire),
        1 => Just(Outcome::Release(ReleaseOutcome::Released)),
        1 => some_gone().prop_map(|gone| Outcome::Release(ReleaseOutcome::Gone(gone))),
        1 => renewed.prop_map(|renewed| Outcome::Renew(RenewOutcome::Renewed(renewed))),
        1 => some_gone().prop_map(|gone| Outcome::Renew(RenewOutcome::Lost(gone))),
        1 => Just(Outcome::Renew(RenewOutcome::AttachedElsewhere)),
        1 => some_holder().prop_map(|holder| Outcome::Revoke(RevokeOutcome::Revoked(holder))),
        1 => Just(Outcome::Revoke(RevokeOutcome::NotHeld)),
        1 => some_token().prop_map(|token| Outcome::Revoke(RevokeOutcome::TokenMismatch(token))),
        1 => some_view().prop_map(|view| Outcome::View(Box::new(view))),
        1 => Just(Outcome::Done),
        1 => any::<u64>().prop_map(|number| Outcome::Describe(DescribeOutcome::Described(number))),
        1 => any::<u64>().prop_map(|number| Outcome::Describe(DescribeOutcome::Outdated(number))),
        1 => some_gone().prop_map(|gone| Outcome::Describe(DescribeOutcome::Lost(gone))),
        1 => some_waiters_view().prop_map(|view| Outcome::Waiters(Box::new(view))),
    ]
}

fn some_notice() -> impl Strategy<Value = Notice> {
    // A server's own words are nothing, or shorter than an operator's.
    let words = prop_oneof![Just(String::new()), some_reason().prop_map(|reason| reason.as_str().to_owned())];
    let longest = Just("r".repeat(REASON_BYTES_MAX));
    let kind = prop_oneof![
        Just(EventKind::Granted),
        Just(EventKind::Released),
        Just(EventKind::Expired),
        some_mode_name().prop_map(EventKind::Changed),
        prop_oneof![words, longest].prop_map(EventKind::Revoked),
    ];
    let extra = (option::of(some_span()), option::of(some_identity()));
    let event = (kind, some_lock_name(), some_holder(), some_id(), some_token(), extra).prop_map(
        |(kind, name, holder, grant_id, token, (max_hold, identity))| {
            let holder = holder.into_string();
            Notice::Event(Box::new(Event {
                kind,
                name,
                holder,
                grant_id: GrantId(grant_id),
                token,
                max_hold: max_hold.and_then(MaxHold::new),
                identity,
            }))
        },
    );
    prop_oneof![
        (some_id(), any::<u32>()).prop_map(|(request, attempt)| Notice::LookAgain(RequestId(request), attempt)),
        (some_attachment(), some_end()).prop_map(|(attachment, end)| Notice::LeaseEnded(attachment, end)),
        some_attachment().prop_map(Notice::Detached),
        (some_attachment(), some_mode_name()).prop_map(|(attachment, mode)| Notice::Wanted(attachment, mode)),
        event,
    ]
}

fn some_work() -> impl Strategy<Value = Work> {
    prop_oneof![
        8 => (some_lock_name(), some_command()).prop_map(|(name, command)| Work::Run(name, command)),
        1 => ("\\PC{0,30}", any::<u64>(), any::<u32>(), any::<u32>())
            .prop_map(|(prefix, slot, limit, budget)| Work::List { prefix, slot, limit, budget }),
        1 => any::<u64>().prop_map(Work::Watch),
    ]
}

fn some_result() -> impl Strategy<Value = Result<Done, Refusal>> {
    let refusal = [Refusal::NotLeader, Refusal::TooLate, Refusal::Unheard, Refusal::Overloaded, Refusal::Deposed];
    prop_oneof![
        8 => (some_outcome(), any::<u64>(), any::<u64>())
            .prop_map(|(outcome, queue_position, ahead)| Ok(Done::Outcome { outcome, queue_position, ahead })),
        1 => (vec((some_lock_name(), some_view()), 0..3), option::of(any::<u64>()), any::<u32>())
            .prop_map(|(locks, next, budget)| Ok(Done::Page { locks, next, budget })),
        1 => Just(Ok(Done::Watching)),
        2 => prop::sample::select(refusal.to_vec()).prop_map(Err),
    ]
}

fn some_waiter() -> impl Strategy<Value = PresentedWaiter> {
    ((some_ballot(), any::<u64>()), some_lock_name(), some_acquire(), any::<bool>()).prop_map(
        |(queue_position, name, acquire, is_dropped)| PresentedWaiter { queue_position, name, acquire, is_dropped },
    )
}

pub(super) fn some_frame() -> impl Strategy<Value = Frame> {
    let of = || (any::<u16>(), some_ballot());
    prop_oneof![
        1 => of().prop_map(|(partition, ballot)| Frame::Declines { partition, ballot }),
        4 => (any::<u64>(), of(), some_time(), some_work()).prop_map(
            |(number, (partition, ballot), not_after, work)| {
                Frame::Forward { number, partition, ballot, not_after, work }
            }
        ),
        4 => (any::<u64>(), some_time(), some_result())
            .prop_map(|(number, now, result)| Frame::Reply { number, now, result }),
        1 => (any::<u64>(), vec(some_notice(), 0..4)).prop_map(|(first, notices)| Frame::Notices { first, notices }),
        1 => (of(), some_time()).prop_map(|((partition, ballot), now)| Frame::Gather { partition, ballot, now }),
        1 => (of(), some_time(), vec(some_waiter(), 0..3), any::<bool>()).prop_map(
            |((partition, ballot), not_after, waiters, is_last)| Frame::Waiters {
                partition,
                ballot,
                not_after,
                waiters,
                is_last,
            }
        ),
        1 => (of(), vec((some_call(), some_acquire_outcome(), any::<u64>()), 0..3))
            .prop_map(|((partition, ballot), outcomes)| Frame::Presented { partition, ballot, outcomes }),
        1 => (of(), option::of((any::<u64>(), vec((some_token(), some_time()), 0..4)))).prop_map(
            |((partition, ballot), ends)| Frame::HandOver {
                partition,
                ballot,
                ends: ends.map(|(seq, ends)| LastEnds { seq, ends }),
            }
        ),
    ]
}

pub(super) fn some_heartbeat() -> impl Strategy<Value = Heartbeat> {
    let led =
        (any::<u16>(), any::<u64>(), some_time()).prop_map(|(partition, round, now)| Led { partition, round, now });
    let ballots = (option::of(some_ballot()), some_ballot(), some_ballot());
    let stranger = (any::<u16>(), any::<u128>(), ballots, any::<u64>()).prop_map(
        |(partition, next, (memory, written, highest), token)| StrangerReport {
            partition,
            next: Stamp(next),
            memory,
            written,
            highest,
            token,
        },
    );
    let lists = (vec(led, 0..4), vec((some_server(), any::<u64>()), 0..4), vec(stranger, 0..4));
    let counts = (any::<u64>(), any::<u64>());
    (counts, any::<[bool; 3]>(), lists).prop_map(|((count, bits), [watches, leaves, left], lists)| Heartbeat {
        count,
        watches,
        leaves,
        left,
        leads: lists.0,
        notices: lists.1,
        strangers: lists.2,
        features: Features::of_bits(bits),
    })
}

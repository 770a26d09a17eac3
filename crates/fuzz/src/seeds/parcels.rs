//! What servers send each other: a frame of each kind, with a command and an outcome of each kind.

use super::NAME;
use fencepost::testing::{
    domain::{
        command::{Acquire, Candidate, Command, Outcome},
        features::Features,
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, RequestId},
        lease::{Delays, Extra, LeaseEnd, MaxHold, Terms},
        mode::{Mode, ModeName, PermitLimit, Permits},
        name::{Holder, Identity, LockName, Metadata, Owner, Reason},
        outcome::{
            AcquireOutcome, ClassicHold, Contention, DelayView, Fate, Gone, Grant, HeldPermits, HolderExtra,
            HolderView, LockView, ReleaseOutcome, RenewOutcome, Renewed, RevokeOutcome, SemaphoreView, SharedView,
        },
        time::StoreTime,
        token::FencingToken,
    },
    store::{
        Event, EventKind, Notice,
        quorum::{
            paxos::{
                ballot::{Ballot, ServerId, Stamp},
                recovery::StrangerReport,
            },
            rpc::messages::{Done, Frame, Heartbeat, LastEnds, Led, Parcel, PresentedWaiter, Refusal, Work},
        },
    },
};
use std::{num::NonZeroU32, time::Duration};
use uuid::Uuid;

const ID: Uuid = Uuid::from_u128(0x0ea8_5d06_5d6b_4f61_8a5f_1f5e_5c1c_0b11);
const NOW: StoreTime = StoreTime::from_micros(1 << 50);
const BALLOT: Ballot = Ballot { round: 300, server: ServerId([7; 12]) };
const CALL: Call = Call { request: RequestId(ID), attempt: 2, id: CallId(1) };
const LEASE: LeaseId = LeaseId(ID);
const ATTACHMENT: AttachmentId = AttachmentId(ID);
const CANDIDATE: Candidate = Candidate { lease_id: LEASE, grant_id: GrantId(ID), attachment: Some(ATTACHMENT) };
const SPAN: Duration = Duration::from_secs(30);
const LIMIT: PermitLimit = PermitLimit { permits: 10, version: 3 };

fn token() -> FencingToken {
    FencingToken::new(7).expect("it is one")
}

fn name() -> LockName {
    LockName::new(NAME).expect("it is a name")
}

fn holder() -> Holder {
    Holder::new("worker".to_owned()).expect("it is a label")
}

fn metadata() -> Metadata {
    Metadata::new([("k".to_owned(), "v".to_owned())]).expect("it is short")
}

fn acquire() -> Acquire {
    let terms = Terms {
        fingerprint: 1,
        ttl: SPAN,
        holder: holder(),
        metadata: metadata(),
        min_token: 3,
        max_hold: None,
        extra: Extra {
            delays: Delays::new(SPAN, SPAN),
            owner: owner(),
            identity: Some(identity()),
            waiters_max: 3,
            tell_when_wanted: true,
            description: 3,
        }
        .boxed(),
        mode: Mode::Shared,
    };
    Acquire { call: CALL, terms, wait: true, candidate: CANDIDATE }
}

fn acquire_permits() -> Acquire {
    let mode = Mode::Semaphore(Box::new(Permits { count: 2, limit: LIMIT, slot: None }));
    let acquire = acquire();
    Acquire { terms: Terms { mode, ..acquire.terms }, ..acquire }
}

fn commands() -> Vec<Command> {
    vec![
        Command::Acquire(acquire()),
        Command::Acquire(acquire_permits()),
        Command::Claim(CALL, CANDIDATE),
        Command::GiveUp(CALL),
        Command::DropCall(CALL),
        Command::Decline { request: CALL.request, attempt: 2 },
        Command::Release(LEASE),
        Command::Renew { lease_id: LEASE, ttl: Some(SPAN) },
        Command::RenewKept(LEASE, ATTACHMENT),
        Command::Attach { lease_id: LEASE, attempt: 1, attachment: ATTACHMENT },
        Command::Detach(LEASE, ATTACHMENT),
        Command::Disconnect(LEASE, ATTACHMENT),
        Command::ForceRelease {
            expected: token(),
            reason: Reason::new("maintenance".to_owned()).expect("it is a reason"),
        },
        Command::View { token: None },
        Command::Describe { lease_id: LEASE, metadata: metadata(), holder: Some(holder()), number: 3 },
        Command::ListWaiters { after: Some(7), max: 100 },
        Command::View { token: Some(token()) },
    ]
}

fn owner() -> Owner {
    Owner::new("batch".to_owned()).expect("it is a label")
}

fn identity() -> Identity {
    Identity::new("ci".into())
}

fn view() -> LockView {
    let current = HolderView {
        holder: holder(),
        metadata: metadata(),
        grant_id: GrantId(ID),
        token: token(),
        ttl: SPAN,
        left: SPAN,
        held: SPAN,
        permits: Some(HeldPermits { count: 1, slot: NonZeroU32::new(2) }),
        extra: Some(Box::new(HolderExtra { owner: owner(), identity: Some(identity()), description: 3 })),
    };
    let semaphore = Some(SemaphoreView { used: 9, limit: LIMIT });
    let shared = SharedView { holders: vec![current.clone()], count: 9, has_token: true, semaphore };
    LockView {
        current: Some(current),
        classic: Some(ClassicHold { left: Some(SPAN) }),
        waiters: 3,
        previous_end: Some(LeaseEnd::Revoked),
        newest_token: Some(token()),
        delay: Some(DelayView { holder: holder(), token: token(), left: SPAN }),
        shared: Some(Box::new(shared)),
    }
}

fn acquire_outcomes() -> Vec<AcquireOutcome> {
    let grant = Grant {
        lease_id: LEASE,
        grant_id: GrantId(ID),
        token: token(),
        left: SPAN,
        previous_end: Some(LeaseEnd::Expired),
        slot: NonZeroU32::new(2),
        mode: ModeName::Semaphore,
    };
    let LockView { current, classic, waiters, delay, shared, .. } = view();
    let contention = Box::new(Contention { current, classic, waiters, delay, shared });
    vec![
        AcquireOutcome::Granted(grant),
        AcquireOutcome::Contended(contention.clone()),
        AcquireOutcome::Queued,
        AcquireOutcome::TimedOut(contention),
        AcquireOutcome::MinTokenTooHigh(9),
        AcquireOutcome::LimitMismatch(LIMIT),
    ]
}

fn outcomes() -> Vec<Outcome> {
    let gone = Gone { fate: Fate::Superseded, successor: Some(token()) };
    let mut outcomes: Vec<_> = acquire_outcomes().into_iter().map(Outcome::Acquire).collect();
    outcomes.extend([
        Outcome::Release(ReleaseOutcome::Released),
        Outcome::Release(ReleaseOutcome::Gone(gone)),
        Outcome::Renew(RenewOutcome::Renewed(Renewed { token: token(), ttl: SPAN, left: SPAN })),
        Outcome::Renew(RenewOutcome::Lost(gone)),
        Outcome::Renew(RenewOutcome::AttachedElsewhere),
        Outcome::Revoke(RevokeOutcome::Revoked(holder())),
        Outcome::Revoke(RevokeOutcome::TokenMismatch(token())),
        Outcome::View(Box::new(view())),
        Outcome::Done,
    ]);
    outcomes
}

fn notices() -> Vec<Notice> {
    let kind = EventKind::Revoked("maintenance".to_owned());
    let event = Event {
        kind,
        name: name(),
        holder: "worker".to_owned(),
        grant_id: GrantId(ID),
        token: token(),
        max_hold: MaxHold::new(SPAN),
        identity: Some(identity()),
    };
    vec![
        Notice::LookAgain(CALL.request, 2),
        Notice::LeaseEnded(ATTACHMENT, LeaseEnd::Expired),
        Notice::Detached(ATTACHMENT),
        Notice::Wanted(ATTACHMENT, ModeName::Exclusive),
        Notice::Event(Box::new(event)),
    ]
}

fn frames() -> Vec<Frame> {
    let forward = |work| Frame::Forward { number: 1, partition: 17, ballot: BALLOT, not_after: NOW, work };
    let reply = |result| Frame::Reply { number: 1, now: NOW, result };
    let mut frames: Vec<_> = commands().into_iter().map(|command| forward(Work::Run(name(), command))).collect();
    frames.push(forward(Work::List { prefix: "orders/".to_owned(), slot: 4, limit: 100, budget: 1_000 }));
    frames.push(forward(Work::Watch(7)));
    frames.extend(
        outcomes().into_iter().map(|outcome| reply(Ok(Done::Outcome { outcome, queue_position: 5, ahead: 6 }))),
    );
    let locks = vec![(name(), view()), (name(), LockView::default())];
    let waiter =
        |is_dropped| PresentedWaiter { queue_position: (BALLOT, 6), name: name(), acquire: acquire(), is_dropped };
    let waiters = vec![waiter(false), waiter(true)];
    let outcomes = acquire_outcomes().into_iter().map(|outcome| (CALL, outcome, 7)).collect();
    frames.extend([
        reply(Ok(Done::Page { locks, next: Some(8), budget: 9 })),
        reply(Ok(Done::Watching)),
        reply(Err(Refusal::Deposed)),
        Frame::Notices { first: 10, notices: notices() },
        Frame::Gather { partition: 17, ballot: BALLOT, now: NOW },
        Frame::Waiters { partition: 17, ballot: BALLOT, not_after: NOW, waiters, is_last: true },
        Frame::Presented { partition: 17, ballot: BALLOT, outcomes },
        Frame::HandOver { partition: 17, ballot: BALLOT, ends: Some(LastEnds { seq: 9, ends: vec![(token(), NOW)] }) },
        Frame::HandOver { partition: 17, ballot: BALLOT, ends: None },
        Frame::Declines { partition: 17, ballot: BALLOT },
    ]);
    frames
}

/// Parcels and heartbeats. The first byte is the kind: 0 for a parcel, 1 for a heartbeat.
pub fn parcels() -> Vec<Vec<u8>> {
    let of = |frames| [&[0], &Parcel { from: BALLOT.server, frames }.encode()[..]].concat();
    let stranger = StrangerReport {
        partition: 1,
        next: Stamp(ID.as_u128()),
        memory: Some(BALLOT),
        written: BALLOT,
        highest: BALLOT,
        token: 2,
    };
    let heartbeat = Heartbeat {
        count: 3,
        watches: true,
        leaves: true,
        left: true,
        leads: vec![Led { partition: 4, round: 300, now: NOW }; 2],
        notices: vec![(BALLOT.server, 5)],
        strangers: vec![stranger],
        features: Features::OWN,
    };
    let mut seeds: Vec<_> = frames().into_iter().map(|frame| of(vec![frame])).collect();
    seeds.extend([of(Vec::new()), of(frames().split_off(20)), [&[1], &heartbeat.encode()[..]].concat()]);
    seeds
}

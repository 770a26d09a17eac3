//! Packing of frames into parcels.

use super::*;
use crate::{
    domain::{
        command::Candidate,
        ids::{Call, CallId, RequestId},
        lease::Terms,
        limits::{HOLDER_BYTES_MAX, LOCK_NAME_BYTES_MAX, METADATA_BYTES_MAX, TOKEN_END},
        name::{Holder, Metadata},
    },
    store::quorum::nodes::client::PARCEL_BYTES_MAX,
};

fn unpacked(parcels: &[Vec<u8>]) -> Vec<Frame> {
    let read = |parcel: &Vec<u8>| {
        let Parcel { from, frames } = Parcel::decode(parcel).unwrap();
        assert_eq!(from, ONE);
        assert!(!frames.is_empty());
        frames
    };
    parcels.iter().flat_map(read).collect()
}

fn of_list(prefix_bytes: usize, number: u64) -> Frame {
    let work = Work::List { prefix: "p".repeat(prefix_bytes), slot: 0, limit: 0, budget: 0 };
    Frame::Forward { number, partition: 1, ballot: Ballot::default(), not_after: StoreTime::default(), work }
}

/// A waiter with all that there can be: many short keys, which take the most bytes.
fn largest_waiter() -> PresentedWaiter {
    let keys = (0..128_u8).map(|byte| vec![byte]);
    let keys = keys.chain((0..=0xffff_u16).map(|pair| pair.to_be_bytes().to_vec()));
    let mut room = METADATA_BYTES_MAX;
    let keys = keys.filter_map(|key| String::from_utf8(key).ok()).take_while(|key| {
        let fits = key.len() <= room;
        room = room.saturating_sub(key.len());
        fits
    });
    let terms = Terms {
        fingerprint: u64::MAX,
        ttl: Duration::MAX,
        holder: Holder::new("h".repeat(HOLDER_BYTES_MAX)).unwrap(),
        metadata: Metadata::new(keys.map(|key| (key, String::new()))).unwrap(),
        min_token: u64::MAX,
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let call = Call { request: RequestId(Uuid::max()), attempt: u32::MAX, id: CallId(u64::MAX) };
    let candidate = Candidate { lease_id: LeaseId(Uuid::max()), grant_id: GrantId(Uuid::max()), attachment: None };
    PresentedWaiter {
        queue_position: (Ballot { round: u64::MAX, server: ONE }, u64::MAX),
        name: LockName::new("n".repeat(LOCK_NAME_BYTES_MAX)).unwrap(),
        acquire: Acquire { call, terms, wait: true, candidate },
        is_dropped: true,
    }
}

#[test]
fn as_many_ends_as_are_told_are_one_frame() {
    let ends = vec![(FencingToken::new(TOKEN_END - 1).unwrap(), StoreTime::from_micros(u64::MAX)); LAST_ENDS_MAX];
    let ballot = Ballot { round: u64::MAX, server: ONE };
    let frame = Frame::HandOver { partition: u16::MAX, ballot, ends: Some(LastEnds { seq: u64::MAX, ends }) };
    assert_eq!(unpacked(&parcels(ONE, [frame.clone()])), [frame]);
}

#[test]
fn nothing_to_send_is_no_parcel() {
    assert_eq!(parcels(ONE, []), Vec::<Vec<u8>>::new());
    assert_eq!(parcels(ONE, [released()]), [Parcel { from: ONE, frames: vec![released()] }.encode()]);
}

#[test]
fn parcels_are_filled_in_order() {
    let frames: Vec<_> = (0..3_000).map(|number| of_list(500, number)).collect();
    let packed = parcels(ONE, frames.clone());
    assert!(unpacked(&packed) == frames, "all arrive in order");
    let (last, full) = packed.split_last().unwrap();
    assert!(full.iter().all(|parcel| (PARCEL_BYTES_FULL - 1_000..=PARCEL_BYTES_FULL).contains(&parcel.len())));
    assert!(last.len() <= PARCEL_BYTES_FULL && full.len() == 6, "{} and {}", full.len(), last.len());
}

#[test]
fn a_parcel_of_small_frames_has_no_more_of_them_than_are_read() {
    let packed = parcels(ONE, vec![released(); 2 * MESSAGES_MAX]);
    assert_eq!(unpacked(&packed).len(), 2 * MESSAGES_MAX);
    assert_eq!(packed.len(), 3, "the sender of each counts");
}

#[test]
fn a_list_of_any_length_arrives() {
    let notices: Vec<_> = (0..40_000).map(|number| Notice::LookAgain(RequestId(id(number)), 1)).collect();
    let mut next = 7;
    let mut read = Vec::new();
    for frame in unpacked(&parcels(ONE, [Frame::Notices { first: 7, notices: notices.clone() }])) {
        let Frame::Notices { first, notices } = frame else { panic!("{frame:?}") };
        assert_eq!(first, next, "they are numbered on");
        next += notices.len() as u64;
        read.extend(notices);
    }
    assert!(read == notices);
}

#[test]
fn the_largest_waiters_arrive_and_the_last_part_says_so() {
    let waiters = vec![largest_waiter(); 2 * LIST_MAX + 1];
    let (partition, ballot, not_after) = (3, Ballot { round: 4, server: ONE }, StoreTime::from_micros(u64::MAX));
    let sent = |is_last| {
        let frame = Frame::Waiters { partition, ballot, not_after, waiters: waiters.clone(), is_last };
        let mut parts = Vec::new();
        for frame in unpacked(&parcels(ONE, [frame])) {
            let Frame::Waiters { partition: 3, not_after: until, waiters, is_last, .. } = frame else {
                panic!("waiters are sent")
            };
            assert_eq!(until, not_after);
            assert!(waiters.iter().all(|waiter| waiter.acquire.terms.ttl == Duration::from_micros(u64::MAX)));
            parts.push((waiters.len(), is_last));
        }
        parts
    };
    assert_eq!(sent(true), [(LIST_MAX, false), (LIST_MAX, false), (1, true)]);
    assert_eq!(sent(false), [(LIST_MAX, false), (LIST_MAX, false), (1, false)]);
    let part = vec![largest_waiter(); LIST_MAX];
    let part = Frame::Waiters { partition, ballot, not_after, waiters: part, is_last: true };
    let bytes = Parcel { from: ONE, frames: vec![part] }.encode().len();
    assert!(bytes <= PARCEL_BYTES_MAX, "{bytes}");
}

#[test]
fn what_became_of_many_waiters_arrives() {
    let call = |number: u64| Call { request: RequestId(id(number.into())), attempt: 1, id: CallId(2) };
    let outcomes: Vec<_> = (0..20_000_u64).map(|number| (call(number), AcquireOutcome::Queued, number)).collect();
    let frame = Frame::Presented { partition: 1, ballot: Ballot::default(), outcomes: outcomes.clone() };
    let read = unpacked(&parcels(ONE, [frame])).into_iter().flat_map(|frame| match frame {
        Frame::Presented { outcomes, .. } => outcomes,
        other => panic!("{other:?}"),
    });
    assert!(read.eq(outcomes));
}

proptest! {
    #[test]
    fn packed_frames_come_back_in_order(frames in prop::collection::vec(some_frame(), 0..6)) {
        prop_assert_eq!(unpacked(&parcels(ONE, frames.clone())), frames);
    }
}

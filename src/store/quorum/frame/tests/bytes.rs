//! The bytes of a few frames. Servers of one layout read each other, so if one of these fails, [`LAYOUT`] has to
//! change.

use super::*;
use crate::domain::{
    command::Candidate,
    ids::{AttachmentId, Call, CallId, RequestId},
    lease::{LeaseEnd, Terms},
    name::{Holder, Metadata},
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a frame without the beginning of its parcel.
fn bytes_of(frame: Frame) -> String {
    let mut bytes = Vec::new();
    message::put_frame(&mut bytes, frame);
    hex(&bytes)
}

fn name() -> LockName {
    LockName::new("orders/42".to_owned()).unwrap()
}

fn ballot() -> Ballot {
    Ballot { round: 300, server: ServerId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) }
}

fn token() -> FencingToken {
    FencingToken::new(1_800_000_000_000_001).unwrap()
}

fn call() -> Call {
    Call { request: RequestId(id(1)), attempt: 2, id: CallId(0x1234) }
}

fn acquire() -> Acquire {
    let terms = Terms {
        fingerprint: 0xfeed,
        ttl: Duration::from_secs(30),
        holder: Holder::new("worker-7".into()).unwrap(),
        metadata: Metadata::new([("host".into(), "a.example".into())]).unwrap(),
        min_token: 7,
    };
    let attachment = Some(AttachmentId(id(5)));
    let candidate = Candidate { lease_id: LeaseId(id(3)), grant_id: GrantId(id(4)), attachment };
    Acquire { call: call(), terms, wait: true, candidate }
}

fn ask(command: Command) -> Frame {
    let not_after = StoreTime::from_micros(1_000_000);
    Frame::Ask { number: 9, partition: 17, ballot: ballot(), not_after, work: Work::Run(name(), command) }
}

#[test]
fn a_parcel_begins_with_its_layout_and_its_sender() {
    let parcel = Parcel { from: ballot().server, frames: vec![released(), released()] };
    assert_eq!(hex(&parcel.encode()), PARCEL);
}

#[test]
fn asks_and_replies() {
    assert_eq!(bytes_of(ask(Command::Acquire(acquire()))), ACQUIRE);
    assert_eq!(bytes_of(ask(Command::Release(LeaseId(id(3))))), RELEASE);
    assert_eq!(bytes_of(ask(Command::Claim(call(), acquire().candidate))), CLAIM);
    let grant = Grant {
        lease_id: LeaseId(id(3)),
        grant_id: GrantId(id(4)),
        token: token(),
        left: Duration::from_secs(30),
        previous_end: Some(LeaseEnd::Expired),
    };
    assert_eq!(bytes_of(reply(Outcome::Acquire(AcquireOutcome::Granted(grant)))), GRANTED);
    let refused = Frame::Reply { number: 1, now: StoreTime::default(), result: Err(Refusal::NotLeader) };
    assert_eq!(bytes_of(refused), "06120408013001");
    assert_eq!(bytes_of(reply(Outcome::Acquire(AcquireOutcome::TokensExhausted))), "0c120a080110021a040a027200");
}

#[test]
fn hand_overs() {
    let ends =
        vec![(token(), StoreTime::from_micros(1_000_000)), (FencingToken::new(1).unwrap(), StoreTime::from_micros(2))];
    let hand_over = |ends| bytes_of(Frame::HandOver { partition: 17, ballot: ballot(), ends });
    assert_eq!(hand_over(None), "173a150811121108ac021108070605040302011d0c0b0a09");
    assert_eq!(hand_over(Some(LastEnds { seq: 9, ends })), HAND_OVER);
}

#[test]
fn lists_follow_their_frames() {
    let event = crate::store::Event {
        kind: crate::store::EventKind::Revoked("maintenance".to_owned()),
        name: name(),
        holder: "worker-7".to_owned(),
        grant_id: GrantId(id(4)),
        token: token(),
    };
    let notices = vec![
        Notice::LookAgain(RequestId(id(1)), 2),
        Notice::LeaseEnded(AttachmentId(id(5)), LeaseEnd::Revoked),
        Notice::Detached(AttachmentId(id(5))),
        Notice::Event(Box::new(event)),
    ];
    assert_eq!(bytes_of(Frame::Notices { first: 10, notices }), NOTICES);
    let waiter = PresentedWaiter { place: (ballot(), 11), name: name(), acquire: acquire(), is_dropped: true };
    let (waiters, not_after) = (vec![waiter], StoreTime::from_micros(5));
    let waiters = Frame::Waiters { partition: 17, ballot: ballot(), not_after, waiters, is_last: true };
    assert_eq!(bytes_of(waiters), WAITERS);
    let outcomes = vec![(call(), AcquireOutcome::Queued, 12)];
    assert_eq!(bytes_of(Frame::Presented { partition: 17, ballot: ballot(), outcomes }), PRESENTED);
}

#[test]
fn what_a_server_tells() {
    let stranger = OfStranger {
        partition: 5,
        next: Stamp(6),
        memory: Some(ballot()),
        written: Ballot::default(),
        highest: ballot(),
        token: 7,
    };
    let told = Told {
        count: 1,
        watches: true,
        leaves: false,
        left: false,
        leads: vec![Led { partition: 2, round: 300, now: StoreTime::from_micros(1_000_000) }],
        notices: vec![(ballot().server, 4)],
        strangers: vec![stranger],
    };
    assert_eq!(hex(&told.encode()), TOLD);
}

const PARCEL: &str = "010e090807060504030201150c0b0a090a1208080110021a0212000a1208080110021a021200";
const ACQUIRE: &str = "bb010ab801080910111a1108ac021108070605040302011d0c0b0a0920c0843d2a9a010a096f72646572732f3432128c010a\
    1f0a12090100000000000000110100000000000000100219341200000000000011edfe000000000000188087a70e2208776f\
    726b65722d372a04686f73742a09612e6578616d706c6530073801423c0a1209030000000000000011030000000000000012\
    120904000000000000001104000000000000001a12090500000000000000110500000000000000";
const RELEASE: &str = "3e0a3c080910111a1108ac021108070605040302011d0c0b0a0920c0843d2a1f0a096f72646572732f34323a120903000000\
    00000000110300000000000000";
const CLAIM: &str = "8c010a8901080910111a1108ac021108070605040302011d0c0b0a0920c0843d2a6c0a096f72646572732f34321a5f0a1f0a\
    120901000000000000001101000000000000001002193412000000000000123c0a1209030000000000000011030000000000\
    000012120904000000000000001104000000000000001a12090500000000000000110500000000000000";
const HAND_OVER: &str = "3f3a3d0811121108ac021108070605040302011d0c0b0a093a2608091210018098281765060001000000000000001a10\
                         40420f00000000000200000000000000";
const GRANTED: &str = "441242080110021a3c0a3a0a380a120903000000000000001103000000000000001212090400000000000000110400000000\
    000000188180e2c4f2a29903208087a70e2802";
const NOTICES: &str = "061a040804100a180a160a1209010000000000000011010000000000000010021812160a1209050000000000000011050000\
    00000000001003141a120905000000000000001105000000000000004322410a096f72646572732f34321208776f726b6572\
    2d371a12090400000000000000110400000000000000208180e2c4f2a299032804320b6d61696e74656e616e6365";
const WAITERS: &str = "1d2a1b0811121108ac021108070605040302011d0c0b0a09180120013005b1010a1108ac021108070605040302011d0c\
    0b0a09100b1a096f72646572732f3432228c010a1f0a12090100000000000000110100000000000000100219341200000000\
    000011edfe000000000000188087a70e2208776f726b65722d372a04686f73742a09612e6578616d706c6530073801423c0a\
    1209030000000000000011030000000000000012120904000000000000001104000000000000001a12090500000000000000\
    1105000000000000002801";
const PRESENTED: &str = "1932170811121108ac021108070605040302011d0c0b0a091801270a1f0a1209010000000000000011010000000000000010\
    0219341200000000000012021a00180c";
const TOLD: &str = "010a0801100120012801300109080210ac0218c0843d120a0e090807060504030201150c0b0a091004370805120911060000\
    00000000001a1108ac021108070605040302011d0c0b0a0922002a1108ac021108070605040302011d0c0b0a093007";

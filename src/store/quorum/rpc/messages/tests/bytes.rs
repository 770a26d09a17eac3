//! The bytes of a few frames. Servers of one layout read each other, so if one of these fails, [`LAYOUT`] has to
//! change.

use super::*;
use crate::domain::{
    command::Candidate,
    ids::{AttachmentId, Call, CallId, RequestId},
    lease::{LeaseEnd, MaxHold, Terms},
    mode::ModeName,
    name::{Holder, Metadata},
};
use crate::store::quorum::paxos::ballot::Stamp;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a frame without the beginning of its parcel.
fn bytes_of(frame: Frame) -> String {
    let begun = Parcel { from: ONE, frames: Vec::new() }.encode().len();
    hex(&Parcel { from: ONE, frames: vec![frame] }.encode()[begun..])
}

fn name() -> LockName {
    LockName::new("orders/42").unwrap()
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
        max_hold: None,
        extra: None,
        mode: Default::default(),
    };
    let attachment = Some(AttachmentId(id(5)));
    let candidate = Candidate { lease_id: LeaseId(id(3)), grant_id: GrantId(id(4)), attachment };
    Acquire { call: call(), terms, wait: true, candidate }
}

fn forward(command: Command) -> Frame {
    let not_after = StoreTime::from_micros(1_000_000);
    Frame::Forward { number: 9, partition: 17, ballot: ballot(), not_after, work: Work::Run(name(), command) }
}

#[test]
fn a_parcel_begins_with_its_layout_and_its_sender() {
    let parcel = Parcel { from: ballot().server, frames: vec![released(), released()] };
    assert_eq!(hex(&parcel.encode()), PARCEL);
}

#[test]
fn asks_and_replies() {
    assert_eq!(bytes_of(forward(Command::Acquire(acquire()))), ACQUIRE);
    assert_eq!(bytes_of(forward(Command::Release(LeaseId(id(3))))), RELEASE);
    assert_eq!(bytes_of(forward(Command::Claim(call(), acquire().candidate))), CLAIM);
    let grant = Grant {
        lease_id: LeaseId(id(3)),
        grant_id: GrantId(id(4)),
        token: token(),
        left: Duration::from_secs(30),
        previous_end: Some(LeaseEnd::Expired),
        slot: None,
        mode: ModeName::Exclusive,
    };
    assert_eq!(bytes_of(reply(Outcome::Acquire(AcquireOutcome::Granted(grant)))), GRANTED);
    let refused = Frame::Reply { number: 1, now: StoreTime::default(), result: Err(Refusal::NotLeader) };
    assert_eq!(bytes_of(refused), "84010100820100");
    assert_eq!(bytes_of(reply(Outcome::Acquire(AcquireOutcome::TokensExhausted))), "84010102820084008200810b0000");
}

#[test]
fn hand_overs() {
    let ends =
        vec![(token(), StoreTime::from_micros(1_000_000)), (FencingToken::new(1).unwrap(), StoreTime::from_micros(2))];
    let hand_over = |ends| bytes_of(Frame::HandOver { partition: 17, ballot: ballot(), ends });
    assert_eq!(hand_over(None), "8306118219012c4c0102030405060708090a0b0c");
    assert_eq!(hand_over(Some(LastEnds { seq: 9, ends })), HAND_OVER);
}

#[test]
fn lists() {
    let event = crate::store::Event {
        kind: crate::store::EventKind::Revoked("maintenance".to_owned()),
        name: name(),
        holder: "worker-7".to_owned(),
        grant_id: GrantId(id(4)),
        token: token(),
        max_hold: None,
        identity: None,
    };
    let bounded = crate::store::Event { max_hold: MaxHold::new(Duration::from_secs(60)), ..event.clone() };
    let event_of = |event| bytes_of(Frame::Notices { first: 10, notices: vec![Notice::Event(Box::new(event))] });
    assert_eq!(event_of(bounded), event_of(event.clone()).replacen("820385", "820386", 1) + "1a03938700");
    let notices = vec![
        Notice::LookAgain(RequestId(id(1)), 2),
        Notice::LeaseEnded(AttachmentId(id(5)), LeaseEnd::Revoked),
        Notice::Detached(AttachmentId(id(5))),
        Notice::Event(Box::new(event)),
    ];
    assert_eq!(bytes_of(Frame::Notices { first: 10, notices }), NOTICES);
    let waiter = PresentedWaiter { queue_position: (ballot(), 11), name: name(), acquire: acquire(), is_dropped: true };
    let (waiters, not_after) = (vec![waiter], StoreTime::from_micros(5));
    let waiters = Frame::Waiters { partition: 17, ballot: ballot(), not_after, waiters, is_last: true };
    assert_eq!(bytes_of(waiters), WAITERS);
    let outcomes = vec![(call(), AcquireOutcome::Queued, 12)];
    assert_eq!(bytes_of(Frame::Presented { partition: 17, ballot: ballot(), outcomes }), PRESENTED);
}

#[test]
fn a_heartbeat() {
    let stranger = StrangerReport {
        partition: 5,
        next: Stamp(6),
        memory: Some(ballot()),
        written: Ballot::default(),
        highest: ballot(),
        token: 7,
    };
    let heartbeat = Heartbeat {
        count: 1,
        watches: true,
        leaves: false,
        left: false,
        leads: vec![Led { partition: 2, round: 300, now: StoreTime::from_micros(1_000_000) }],
        notices: vec![(ballot().server, 4)],
        strangers: vec![stranger],
        features: Features::of_bits(5),
    };
    // The features are the eighth entry of the list.
    assert_eq!(hex(&heartbeat.encode()), HEARTBEAT.replacen("0287", "0288", 1) + "05");
    let first: Vec<u8> =
        (0..HEARTBEAT.len()).step_by(2).map(|at| u8::from_str_radix(&HEARTBEAT[at..at + 2], 16).unwrap()).collect();
    let told = Heartbeat { features: Features::NONE, ..heartbeat };
    assert_eq!(Heartbeat::decode(&first).unwrap(), told, "a server of the first version tells none");
}

/// What a server of the first version would pass over. A plain acquire has the bytes that it had.
#[test]
fn an_acquire_with_max_hold() {
    let mut bounded = acquire();
    bounded.terms.max_hold = MaxHold::new(Duration::from_secs(60));
    let expected = ACQUIRE.replacen("8519feed", "8619feed", 1).replacen("6507f583", "65071a03938700f583", 1);
    assert_eq!(bytes_of(forward(Command::Acquire(bounded))), expected);
}

const PARCEL: &str = "024c0102030405060708090a0b0c84010102820084008201810000008401010282008400820181000000";
const ACQUIRE: &str = "860009118219012c4c0102030405060708090a0b0c1a000f42408300696f72646572732f343282008483500000000000\
    0000010000000000000001021912348519feed1a01c9c38068776f726b65722d37a164686f737469612e6578616d706c\
    6507f5835000000000000000030000000000000003500000000000000004000000000000000450000000000000000500\
    00000000000005";
const RELEASE: &str = "860009118219012c4c0102030405060708090a0b0c1a000f42408300696f72646572732f343282055000000000000000\
    030000000000000003";
const CLAIM: &str = "860009118219012c4c0102030405060708090a0b0c1a000f42408300696f72646572732f343283018350000000000000\
    000100000000000000010219123483500000000000000003000000000000000350000000000000000400000000000000\
    045000000000000000050000000000000005";
const HAND_OVER: &str = "8406118219012c4c0102030405060708090a0b0c820982821b00066517289880011a000f4240820102";
const GRANTED: &str = "84010102820084008200820085500000000000000003000000000000000350000000000000000400000000000000041b\
    00066517289880011a01c9c380010000";
const NOTICES: &str = "83020a848300500000000000000001000000000000000102830150000000000000000500000000000000050282025000\
    00000000000005000000000000000582038582036b6d61696e74656e616e6365696f72646572732f343268776f726b65\
    722d3750000000000000000400000000000000041b0006651728988001";
const WAITERS: &str = "8604118219012c4c0102030405060708090a0b0c058184828219012c4c0102030405060708090a0b0c0b696f72646572\
    732f343284835000000000000000010000000000000001021912348519feed1a01c9c38068776f726b65722d37a16468\
    6f737469612e6578616d706c6507f5835000000000000000030000000000000003500000000000000004000000000000\
    00045000000000000000050000000000000005f5f5";
const PRESENTED: &str =
    "8405118219012c4c0102030405060708090a0b0c81838350000000000000000100000000000000010219123481020c";
const HEARTBEAT: &str = "028701f5f4f481830219012c1a000f424081824c0102030405060708090a0b0c04818605500000000000000000\
    00000000000000068219012c4c0102030405060708090a0b0c82004c0000000000000000000000008219012c4c010203040506\
    0708090a0b0c07";

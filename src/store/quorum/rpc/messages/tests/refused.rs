//! Bytes that are not a parcel, and values that no server sends.

use super::*;
use crate::{domain::name::Reason, store::quorum::nodes::client::PARCEL_BYTES_MAX};

fn refused(bytes: &[u8]) -> String {
    Parcel::decode(bytes).unwrap_err().to_string()
}

/// A parcel with this after the message that says who sent it.
fn with(rest: &[u8]) -> Vec<u8> {
    [&Parcel { from: ONE, frames: Vec::new() }.encode(), rest].concat()
}

#[test]
fn another_layout_is_refused_by_its_number() {
    let words = "it has layout 1, and this server reads layout 2: another version of the server sent it";
    assert!(refused(&[1, 1, 2, 3]).starts_with(words), "{}", refused(&[1, 1, 2, 3]));
    assert!(Heartbeat::decode(&[1]).unwrap_err().to_string().starts_with(words));
}

/// What encodes as CBOR, after the sender of a parcel.
fn with_value(value: impl minicbor::Encode<()>) -> Vec<u8> {
    with(&minicbor::to_vec(value).unwrap())
}

#[test]
fn what_cannot_be_a_parcel_is_refused_in_words() {
    assert_eq!(refused(&[]), "it is empty");
    assert_eq!(refused(&[LAYOUT]), "it is damaged: it is cut off");
    assert_eq!(refused(&vec![LAYOUT; PARCEL_BYTES_MAX + 1]), "it has 8388609 bytes, and there are at most 8388608");
    assert!(refused(&[LAYOUT, 0xff]).starts_with("it is damaged: "));
    assert!(refused(&with_value("no frame")).starts_with("it is damaged: unexpected type"));
    assert!(refused(&with_value((99, 1))).starts_with("it is damaged: unknown enum variant 99"));
    // A Gather without its ballot; one of partition 65,536.
    assert!(
        refused(&with_value((3, 5))).starts_with("it is damaged: missing value"),
        "{}",
        refused(&with_value((3, 5)))
    );
    assert!(refused(&with_value((3, 65_536))).starts_with("it is damaged: "));
    // A list that does not tell its length.
    let endless = [&[0x83, 2, 1, 0x9f][..], &[0xff]].concat();
    assert_eq!(refused(&with(&endless)), "it is damaged: a list does not tell its length");
}

#[test]
fn more_entries_than_a_parcel_has_are_refused() {
    let of = |frames| Parcel { from: ONE, frames: vec![released(); frames] }.encode();
    assert!(Parcel::decode(&of(MESSAGES_MAX - 1)).is_ok());
    assert_eq!(refused(&of(MESSAGES_MAX)), "it is damaged: it has too many entries");
    let gone = |notices| vec![Notice::Detached(crate::domain::ids::AttachmentId(id(1))); notices];
    let of = |notices| Parcel { from: ONE, frames: vec![Frame::Notices { first: 1, notices: gone(notices) }] }.encode();
    assert!(Parcel::decode(&of(MESSAGES_MAX - 2)).is_ok());
    assert_eq!(refused(&of(MESSAGES_MAX - 1)), "it is damaged: it has too many entries");
    // Notices that are not there: 2^32 - 1, and 2^64 - 1.
    for count in [&[0x9a, 0xff, 0xff, 0xff, 0xff][..], &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
        assert_eq!(refused(&with(&[&[0x83, 2, 1], count].concat())), "it is damaged: it has too many entries");
    }
}

/// Metadata has a bound of its own: its pairs may be empty.
#[test]
fn more_pairs_than_there_can_be_are_refused() {
    let mut holder = vec![0xb9, 0xff, 0xff];
    holder.extend([0x60; 2 * 0xffff]);
    let metadata = minicbor::decode::<crate::domain::name::Metadata>(&holder).unwrap_err().to_string();
    assert_eq!(metadata, "decode error: its metadata has more pairs than there can be");
}

/// A server of the next version may add a field, and may not leave out one that is always there.
#[test]
fn fields_of_the_next_version_are_skipped() {
    let led = Led { partition: 3, round: 4, now: StoreTime::from_micros(5) };
    let next = minicbor::to_vec((3_u16, 4_u64, 5_u64, Some("added"), [1, 2, 3])).unwrap();
    assert_eq!(minicbor::decode::<Led>(&next).unwrap(), led);
    let next = minicbor::to_vec((2, 9_u64, "added", [1])).unwrap();
    assert_eq!(minicbor::decode::<Work>(&next).unwrap(), Work::Watch(9));
    let without = minicbor::to_vec((3_u16, 4_u64)).unwrap();
    assert!(minicbor::decode::<Led>(&without).unwrap_err().is_missing_value());
}

#[test]
fn texts_keep_the_rules_of_the_domain() {
    let list = |bytes| {
        let work = Work::List { prefix: "p".repeat(bytes), slot: 0, limit: 0, budget: 0 };
        Frame::Forward { number: 1, partition: 1, ballot: Ballot::default(), not_after: StoreTime::default(), work }
    };
    assert_eq!(read_back(list(512)), list(512));
    let sent = |frame| refused(&Parcel { from: ONE, frames: vec![frame] }.encode());
    assert_eq!(sent(list(513)), "it is damaged: its prefix has 513 bytes: too many");
    let event = |holder: usize, reason: usize| {
        let kind = crate::store::EventKind::Revoked("r".repeat(reason));
        let (name, token) = (LockName::new("n").unwrap(), FencingToken::new(1).unwrap());
        let event = crate::store::Event {
            kind,
            name,
            holder: "h".repeat(holder),
            grant_id: GrantId(id(1)),
            token,
            max_hold: None,
            identity: None,
        };
        Frame::Notices { first: 1, notices: vec![Notice::Event(Box::new(event))] }
    };
    assert_eq!(read_back(event(256, 256)), event(256, 256));
    assert_eq!(sent(event(257, 0)), "it is damaged: its holder must have at most 256 bytes; it has 257");
    assert_eq!(sent(event(0, 257)), "it is damaged: its reason has 257 bytes: too many");
    assert!(Reason::new("r".repeat(257)).is_err(), "no operator can give such a reason");
}

#[test]
fn a_heartbeat_ends_where_it_says() {
    let heartbeat = Heartbeat {
        count: 1,
        leads: vec![Led { partition: 1, round: 2, now: StoreTime::from_micros(3) }],
        ..Heartbeat::default()
    };
    let bytes = heartbeat.encode();
    for end in 0..bytes.len() {
        assert!(Heartbeat::decode(&bytes[..end]).is_err(), "cut off at {end}");
    }
    let more = Heartbeat::decode(&[&bytes[..], &[0]].concat()).unwrap_err();
    assert_eq!(more.to_string(), "it is damaged: more follows it");
    assert!(matches!(Heartbeat::decode(&vec![LAYOUT; HEARTBEAT_BYTES_MAX + 1]), Err(FrameError::TooLong(..))));
}

proptest! {
    /// A parcel that is cut off is damaged, or has lost whole frames at its end.
    #[test]
    fn a_parcel_that_is_cut_off_has_no_other_frames(frames in prop::collection::vec(some_frame(), 1..4), cut: usize) {
        let whole = Parcel { from: ONE, frames };
        let bytes = whole.encode();
        if let Ok(part) = Parcel::decode(&bytes[..cut % bytes.len()]) {
            prop_assert!(part.frames.len() < whole.frames.len());
            prop_assert_eq!(&part.frames[..], &whole.frames[..part.frames.len()]);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, is_heartbeat: bool) {
        bytes.insert(0, LAYOUT);
        let _ = if is_heartbeat { Heartbeat::decode(&bytes).map(drop) } else { Parcel::decode(&bytes).map(drop) };
    }
}

//! What is no parcel, or says what no server tells.

use super::*;
use crate::domain::name::Reason;

fn refused(bytes: &[u8]) -> String {
    Parcel::decode(bytes).unwrap_err().to_string()
}

/// A parcel with this after the message that says who sent it.
fn with(rest: &[u8]) -> Vec<u8> {
    [&Parcel { from: ONE, frames: Vec::new() }.encode(), rest].concat()
}

#[test]
fn another_layout_is_refused_by_its_number() {
    let words = "it has layout 2, and this server reads layout 1: another version of the server sent it";
    assert!(refused(&[2, 1, 2, 3]).starts_with(words), "{}", refused(&[2, 1, 2, 3]));
    assert!(Told::decode(&[2]).unwrap_err().to_string().starts_with(words));
}

#[test]
fn what_cannot_be_a_parcel_is_refused_in_words() {
    assert_eq!(refused(&[]), "it is empty");
    assert_eq!(refused(&[LAYOUT]), "it is damaged: it is cut off");
    assert_eq!(refused(&vec![LAYOUT; PARCEL_BYTES_MAX + 1]), "it has 8388609 bytes, and there are at most 8388608");
    assert!(refused(&[LAYOUT, 1, 0xff]).starts_with("it is damaged: "));
    assert_eq!(refused(&with(&[5])), "it is damaged: it is cut off");
    assert_eq!(refused(&with(&[0])), "it is damaged: its kind is missing");
    // A length of 64 KiB and 1.
    let long = "it is damaged: it has a message of 65537 bytes, and one has at most 65536";
    assert_eq!(refused(&with(&[0x81, 0x80, 0x04])), long);
    // A length of more than there is memory.
    assert!(refused(&with(&[0xff; 9])).starts_with("it is damaged: "));
    // An Ask with neither a ballot nor work; one with work alone.
    assert_eq!(refused(&with(&[2, 0x0a, 0])), "it is damaged: its work is missing");
    assert_eq!(refused(&with(&[4, 0x0a, 2, 0x3a, 0])), "it is damaged: its ballot is missing");
    // Partition 65,536.
    let gather = [8, 0x22, 6, 0x08, 0x80, 0x80, 0x04, 0x12, 0];
    assert_eq!(refused(&with(&gather)), "it is damaged: its partition cannot be 65536");
    // Notices, of which 3 should follow.
    assert_eq!(refused(&with(&[4, 0x1a, 2, 0x08, 3])), "it is damaged: it is cut off");
    // A hand-over with the ends of 0 leases, of one token.
    let ends = [16, 0x3a, 14, 0x12, 0, 0x3a, 10, 0x12, 8, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(refused(&with(&ends)), "it is damaged: its ends of leases are 0, of 1 leases");
    // A reply with refusal 9.
    assert_eq!(refused(&with(&[4, 0x12, 2, 0x30, 9])), "it is damaged: its refusal cannot be 9");
}

#[test]
fn more_messages_than_a_parcel_has_are_refused() {
    let of = |frames| Parcel { from: ONE, frames: vec![released(); frames] }.encode();
    assert!(Parcel::decode(&of(MESSAGES_MAX - 1)).is_ok());
    assert_eq!(refused(&of(MESSAGES_MAX)), "it is damaged: it has too many messages");
}

#[test]
fn texts_keep_the_rules_of_the_domain() {
    let list = |bytes| {
        let work = Work::List { prefix: "p".repeat(bytes), slot: 0, limit: 0, budget: 0 };
        Frame::Ask { number: 1, partition: 1, ballot: Ballot::default(), not_after: StoreTime::default(), work }
    };
    assert_eq!(read_back(list(512)), list(512));
    let sent = |frame| refused(&Parcel { from: ONE, frames: vec![frame] }.encode());
    assert_eq!(sent(list(513)), "it is damaged: its prefix has 513 bytes: too many");
    let event = |holder: usize, reason: usize| {
        let kind = crate::store::EventKind::Revoked("r".repeat(reason));
        let (name, token) = (LockName::new("n".to_owned()).unwrap(), FencingToken::new(1).unwrap());
        let event = crate::store::Event { kind, name, holder: "h".repeat(holder), grant_id: GrantId(id(1)), token };
        Frame::Notices { first: 1, notices: vec![Notice::Event(Box::new(event))] }
    };
    assert_eq!(read_back(event(256, 256)), event(256, 256));
    assert_eq!(sent(event(257, 0)), "it is damaged: its holder must have at most 256 bytes; it has 257");
    assert_eq!(sent(event(0, 257)), "it is damaged: its reason has 257 bytes: too many");
    assert!(Reason::new("r".repeat(257)).is_err(), "no operator can give such a reason");
}

#[test]
fn what_a_server_tells_ends_where_it_says() {
    let told = Told {
        count: 1,
        leads: vec![Led { partition: 1, round: 2, now: StoreTime::from_micros(3) }],
        ..Told::default()
    };
    let bytes = told.encode();
    for end in 0..bytes.len() {
        assert!(Told::decode(&bytes[..end]).is_err(), "cut off at {end}");
    }
    assert_eq!(Told::decode(&[&bytes[..], &[0]].concat()), Err(FrameError::TooMany));
    assert!(matches!(Told::decode(&vec![LAYOUT; TOLD_BYTES_MAX + 1]), Err(FrameError::TooLong(..))));
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
    fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, told: bool) {
        bytes.insert(0, LAYOUT);
        let _ = if told { Told::decode(&bytes).map(drop) } else { Parcel::decode(&bytes).map(drop) };
    }
}

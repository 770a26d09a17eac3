//! Records: each field comes back, nothing that is read makes the server panic, the bytes do not change unnoticed.

mod ghosts;
mod layouts;

use super::{
    ended::{self, Entry},
    lock::TOMBSTONES_MAX,
    share::Share,
    *,
};
use crate::{
    domain::{
        binding::Binding,
        ended::{Ended, EndedLease, RequestEnd},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::{Delays, Extra, Lease, LeaseEnd, MaxHold, Terms},
        limits::{CALLS_PER_ATTEMPT_MAX, HOLDER_BYTES_MAX, LOCK_NAME_BYTES_MAX, METADATA_BYTES_MAX, TOKEN_END},
        mode::Mode,
        name::{Holder, Metadata},
        rules::{Delay, Lock, Tombstone},
        time::StoreTime,
        token::FencingToken,
    },
    store::fields::values::{some_end, some_id, some_lock_name, some_terms, some_time, some_token},
};
use proptest::{option, prelude::*};
use std::time::Duration;
use uuid::Uuid;

const END: StoreTime = StoreTime::from_micros(1_800_000_030_000_000);

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number << 64 | number)
}

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

/// A lease with something in each field.
fn lease() -> Lease {
    let call = Call { request: RequestId(id(1)), attempt: 2, id: CallId(0x1234) };
    Lease {
        request: call.request,
        binding: Binding::first(call, ReplicaId(id(3))),
        terms: Terms {
            fingerprint: 0xfeed,
            ttl: Duration::from_secs(30),
            holder: Holder::new("worker-7".into()).unwrap(),
            metadata: Metadata::new([("host".into(), "a.example".into())]).unwrap(),
            min_token: 7,
            max_hold: None,
            extra: None,
            mode: Default::default(),
        },
        lease_id: LeaseId(id(4)),
        grant_id: GrantId(id(5)),
        token: token(1_800_000_000_000_001),
        granted_at: StoreTime::from_micros(1_800_000_000_000_000),
        expires_at: END,
        previous_end: Some(LeaseEnd::Revoked),
        attachment: Some(AttachmentId(id(6))),
        attachment_replica: ReplicaId(id(7)),
        attachment_attempt: 8,
        unheard: true,
        heard: true,
        told_wanted: false,
    }
}

fn tombstone(number: u64) -> Tombstone {
    let call = Call { request: RequestId(id(9)), attempt: 1, id: CallId(number) };
    Tombstone { call, until: END }
}

fn encoded(lock: &Lock) -> Bytes {
    lock::encode(lock, lock.lease().map_or(END, |lease| lease.expires_at)).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The lease that a record of it gives.
fn read_back(lease: Lease) -> Result<Lease, RecordError> {
    let lock = lock::decode(&encoded(&Lock::kept(Some(lease), Vec::new())))?;
    Ok(lock.lease().unwrap().clone())
}

/// A server of this layout reads what any other one of it wrote. If this fails, [`LAYOUT`] has to change.
#[test]
fn the_bytes_of_a_layout_never_change() {
    let lock = Lock::kept(Some(lease()), vec![tombstone(10)]);
    assert_eq!(hex(&encoded(&lock)), LOCK_BYTES);
    let mut ends = Vec::new();
    let name = LockName::new("orders/42").unwrap();
    let end = |end, at| Ended { request: RequestId(id(1)), fingerprint: 2, end, at: StoreTime::from_micros(at) };
    let expired = of_lease(3, Some(token(5)));
    ended::append(&mut ends, &name, &end(expired, 4));
    ended::append(&mut ends, &name, &end(RequestEnd::Refused(6), 7));
    assert_eq!(hex(&ends), ENDED_BYTES);
    assert_eq!(hex(&Key::of_lock(&name)), "6c6f72646572732f3432");
    assert_eq!(hex(&Key::of_ended(258)), "650000000000000102");
}

/// A server before layout 2 refuses the record by its first byte. Without `max_hold` it reads it as ever.
#[test]
fn a_record_with_max_hold_has_layout_2_and_ends_with_it() {
    let terms = Terms { max_hold: MaxHold::new(Duration::from_secs(3_600)), ..lease().terms };
    let lock = Lock::kept(Some(Lease { terms, ..lease() }), vec![tombstone(10)]);
    let record = encoded(&lock);
    // The lease is longer by the tag and the number, and nothing else differs.
    let expected = LOCK_BYTES.replacen("010ad701", "020ade01", 1).replacen("a00101", "a00101d00180c8ceb40d", 1);
    assert_eq!(hex(&record), expected);
    assert_eq!(lock::decode(&record).unwrap().lease(), lock.lease());
    let name = LockName::new("orders/42").unwrap();
    let raised = with_tokens(&Key::of_lock(&name), &record, |token| Some(token + 1)).unwrap().unwrap();
    assert_eq!(raised[0], LAYOUT_OF_MODES, "with other tokens it is no older");
    let free = Lock::kept(None, vec![tombstone(10)]);
    assert_eq!(encoded(&free)[0], LAYOUT, "an old server leads the lock again when the lease has ended");
}

/// The delay after a lease, which a server before it must not pass over: it would grant the lock.
#[test]
fn a_record_with_delays_has_layout_2() {
    let hour = Duration::from_secs(3_600);
    let terms = Terms { extra: Extra::of_delays(Delays::new(hour, Duration::from_secs(60))), ..lease().terms };
    let lock = Lock::kept(Some(Lease { terms, ..lease() }), vec![tombstone(10)]);
    let record = encoded(&lock);
    // The lease is longer by two tags and numbers, and nothing else differs.
    let longer = "a00101d801808ece1ce00180c8ceb40d";
    let expected = LOCK_BYTES.replacen("010ad701", "020ae401", 1).replacen("a00101", longer, 1);
    assert_eq!(hex(&record), expected);
    assert_eq!(lock::decode(&record).unwrap().lease(), lock.lease());
    let delayed = Lock::kept(None, Vec::new()).delayed(delay());
    let record = encoded(&delayed);
    assert_eq!(hex(&record), DELAY_BYTES);
    assert_eq!(lock::decode(&record).unwrap().delay(), Some(&delay()));
    let name = LockName::new("orders/42").unwrap();
    let raised = with_tokens(&Key::of_lock(&name), &record, |token| Some(token + 1)).unwrap().unwrap();
    let raised = lock::decode(&raised).unwrap();
    assert_eq!(raised.delay(), Some(&delay_of(token(delay().token.get() + 1))));
    assert_eq!(with_tokens(&Key::of_lock(&name), &record, |_| None).unwrap(), None);
}

fn of_lease(number: u128, token: Option<FencingToken>) -> RequestEnd {
    let (lease_id, end) = (LeaseId(id(number)), LeaseEnd::Expired);
    RequestEnd::Lease(EndedLease { lease_id, token, end, handed_on: end })
}

fn delay() -> Delay {
    delay_of(token(5))
}

fn delay_of(token: FencingToken) -> Delay {
    let end = of_lease(4, Some(token));
    Delay {
        ended: Ended { request: RequestId(id(1)), fingerprint: 7, end, at: StoreTime::from_micros(8) },
        token,
        holder: Holder::new("worker-7".into()).unwrap(),
        delays: Delays { min_hold: Duration::from_secs(3_600), lock_delay: Duration::from_secs(60) },
        held_until: StoreTime::from_micros(9),
        delayed_until: StoreTime::from_micros(10),
    }
}

const DELAY_BYTES: &str = "021a500a120901000000000000001101000000000000001107000000000000001a1209040000000000000011040000000000\
    00002002280830053a08776f726b65722d374080c8ceb40d48808ece1c5009580a";

const LOCK_BYTES: &str = "010ad7010a1209010000000000000011010000000000000010021a0834120000000000002212090300000000000000110300\
    00000000000029edfe000000000000308087a70e3a08776f726b65722d374204686f73744209612e6578616d706c65480752\
    120904000000000000001104000000000000005a12090500000000000000110500000000000000608180e2c4f2a299036880\
    80e2c4f2a2990370808789d3f2a2990378038201120906000000000000001106000000000000008a01120907000000000000\
    00110700000000000000900108980101a0010112280a120909000000000000001109000000000000001001190a0000000000\
    000020808789d3f2a29903";
const ENDED_BYTES: &str = "010a420a096f72646572732f3432121209010000000000000011010000000000000019020000000000000020042802321209\
    030000000000000011030000000000000038050a2e0a096f72646572732f3432121209010000000000000011010000000000\
    0000190200000000000000200728063806";

#[test]
fn a_lease_with_short_metadata_takes_less_than_300_bytes() {
    let bytes = encoded(&Lock::kept(Some(lease()), Vec::new())).len();
    assert!((200..300).contains(&bytes), "{bytes}");
}

#[test]
fn the_largest_lock_has_a_record_that_is_read() {
    let keys = (0..128_u8).map(|byte| vec![byte]);
    let keys = keys.chain((0..=0xffff_u16).map(|pair| pair.to_be_bytes().to_vec()));
    let mut room = METADATA_BYTES_MAX;
    let keys = keys.filter_map(|key| String::from_utf8(key).ok()).take_while(|key| {
        let fits = key.len() <= room;
        room = room.saturating_sub(key.len());
        fits
    });
    let mut lease = lease();
    lease.terms.metadata = Metadata::new(keys.map(|key| (key, String::new()))).unwrap();
    lease.terms.holder = Holder::new("h".repeat(HOLDER_BYTES_MAX)).unwrap();
    let calls = (0..CALLS_PER_ATTEMPT_MAX as u64).map(CallId);
    lease.binding = Binding::kept(1, calls, ReplicaId(id(1))).unwrap();
    let tombstones: Vec<_> = (0..TOMBSTONES_MAX as u64 + 1).map(tombstone).collect();
    let record = encoded(&Lock::kept(Some(lease.clone()), tombstones.clone()));
    assert!(record.len() < RECORD_BYTES_MAX / 2, "{}", record.len());
    let lock = lock::decode(&record).unwrap();
    assert_eq!(lock.lease(), Some(&lease));
    assert_eq!(lock.tombstones(), &tombstones[1..], "the newest are kept");
    assert_eq!(encoded(&lock), record);
}

#[test]
fn a_full_record_of_ended_requests_is_read() {
    let name = LockName::new("n".repeat(LOCK_NAME_BYTES_MAX)).unwrap();
    let end = of_lease(3, Some(token(TOKEN_END - 1)));
    let ended = Ended { request: RequestId(id(1)), fingerprint: 2, end, at: END };
    let mut record = Vec::new();
    let mut count = 0;
    while record.len() < ended::FULL_FROM_BYTES {
        ended::append(&mut record, &name, &ended);
        count += 1;
    }
    assert!(record.len() < RECORD_BYTES_MAX);
    assert_eq!(ended::decode(&record).unwrap(), vec![Entry { name, ended }; count]);
}

#[test]
fn what_cannot_be_a_record_is_refused_in_words() {
    let refused = |record: &[u8]| lock::decode(record).unwrap_err().to_string();
    assert_eq!(refused(&[]), "it is empty");
    let other = refused(&[4, 1, 2, 3]);
    assert!(other.starts_with("it has layout 4, and this server reads layouts 1 to 3"), "{other}");
    assert!(matches!(ended::decode(&[LAYOUT_OF_MODES]), Err(RecordError::OtherLayout(2))), "none is written so");
    assert!(refused(&[LAYOUT, 0xff]).starts_with("it is damaged: "));
    assert_eq!(refused(&[LAYOUT]), "it is damaged: its lease is missing");
    assert_eq!(refused(&[LAYOUT, 0x0a, 0]), "it is damaged: its request id is missing");
    assert_eq!(refused(&vec![LAYOUT; RECORD_BYTES_MAX + 1]), "it has 65537 bytes, and a record has at most 65536");
    let whole = encoded(&Lock::kept(Some(lease()), vec![tombstone(1)]));
    for end in 1..whole.len() {
        // A message that was cut may be one: then something is missing in it, or its last fields are.
        let _ = lock::decode(&whole[..end]);
    }
    assert_eq!(ended::decode(&[LAYOUT]), Ok(Vec::new()));
    assert!(matches!(ended::decode(&[LAYOUT, 0x0a, 0]), Err(RecordError::Field(FieldError::Broken("end", _)))));
    for key in
        [&b""[..], b"x", b"h", b"ha\x00123456789012345", b"ha1234567890123456", b"e1234567", b"e123456789", b"l\xff"]
    {
        assert_eq!(Key::decode(key), Err(RecordError::UnknownKey), "{key:?}");
    }
    assert!(
        matches!(Key::decode(b"l"), Err(RecordError::Field(FieldError::Broken("lock name", _)))),
        "names are not empty"
    );
}

fn some_binding() -> impl Strategy<Value = Binding> {
    let calls = prop::collection::vec(any::<u64>().prop_map(CallId), 0..=CALLS_PER_ATTEMPT_MAX);
    (any::<u32>(), calls, some_id())
        .prop_map(|(attempt, calls, replica)| Binding::kept(attempt, calls, ReplicaId(replica)).unwrap())
}

/// What the request asked of its waiting is not kept.
fn some_granted_terms() -> impl Strategy<Value = Terms> {
    some_terms().prop_map(|mut terms| {
        terms.extra = terms.extra.and_then(|extra| Extra { waiters_max: 0, ..*extra }.boxed());
        terms
    })
}

fn some_lease() -> impl Strategy<Value = Lease> {
    let ids = (some_id(), some_id(), some_id(), option::of(some_id()), some_id());
    let rest = (some_token(), some_time(), some_time(), option::of(some_end()), any::<u32>(), any::<[bool; 2]>());
    (ids, some_binding(), some_granted_terms(), rest).prop_map(|(ids, binding, terms, rest)| {
        let (request, lease_id, grant_id, attachment, attachment_replica) = ids;
        let (token, granted_at, expires_at, previous_end, attachment_attempt, [unheard, heard]) = rest;
        Lease {
            request: RequestId(request),
            binding,
            terms,
            lease_id: LeaseId(lease_id),
            grant_id: GrantId(grant_id),
            token,
            granted_at,
            expires_at,
            previous_end,
            attachment: attachment.map(AttachmentId),
            attachment_replica: ReplicaId(attachment_replica),
            attachment_attempt,
            unheard,
            heard,
            told_wanted: false,
        }
    })
}

fn some_tombstone() -> impl Strategy<Value = Tombstone> {
    (some_id(), any::<u32>(), any::<u64>(), some_time()).prop_map(|(request, attempt, call, until)| Tombstone {
        call: Call { request: RequestId(request), attempt, id: CallId(call) },
        until,
    })
}

fn some_entry() -> impl Strategy<Value = Entry> {
    let end = prop_oneof![
        (some_id(), some_end(), some_end(), option::of(some_token())).prop_map(|(lease, end, handed_on, token)| {
            RequestEnd::Lease(EndedLease { lease_id: LeaseId(lease), token, end, handed_on })
        }),
        Just(RequestEnd::TimedOut),
        Just(RequestEnd::Abandoned),
        any::<u32>().prop_map(RequestEnd::Refused),
    ];
    (some_lock_name(), some_id(), any::<u64>(), end, some_time()).prop_map(|(name, request, fingerprint, end, at)| {
        Entry { name, ended: Ended { request: RequestId(request), fingerprint, end, at } }
    })
}

proptest! {
    #[test]
    fn each_field_of_a_lease_comes_back(lease in some_lease()) {
        prop_assert_eq!(read_back(lease.clone()), Ok(lease));
    }

    #[test]
    fn a_lock_comes_back_with_its_tombstones(
        lease in option::of(some_lease()),
        tombstones in prop::collection::vec(some_tombstone(), 1..5),
    ) {
        let record = encoded(&Lock::kept(lease.clone(), tombstones.clone()));
        let lock = lock::decode(&record).unwrap();
        prop_assert_eq!((lock.lease(), lock.tombstones()), (lease.as_ref(), &tombstones[..]));
        prop_assert_eq!(encoded(&lock), record);
    }

    #[test]
    fn ended_requests_come_back_in_order(entries in prop::collection::vec(some_entry(), 0..8)) {
        let mut record = vec![LAYOUT];
        for Entry { name, ended } in &entries {
            ended::append(&mut record, name, ended);
        }
        prop_assert_eq!(ended::decode(&record), Ok(entries));
        let record = Bytes::from(record);
        prop_assert_eq!(with_tokens(&Key::of_ended(3), &record, Some), Ok(Some(record)), "the message writes the same");
    }

    #[test]
    fn keys_come_back(name in "\\PC{1,100}", number: u64, grant_id in some_id()) {
        let name = LockName::new(name).unwrap();
        let grant_id = GrantId(grant_id);
        let share = Key::of_share(&name, grant_id);
        prop_assert_eq!(Key::decode(&share), Ok(Key::Share(name.clone(), grant_id)));
        prop_assert_eq!(Key::decode(&Key::of_lock(&name)), Ok(Key::Lock(name)));
        prop_assert_eq!(Key::decode(&Key::of_ended(number)), Ok(Key::Ended(number)));
    }

    #[test]
    fn tokens_of_records_are_renumbered_and_nothing_else(
        lease in some_lease(),
        tombstones in prop::collection::vec(some_tombstone(), 0..3),
        entries in prop::collection::vec(some_entry(), 0..5),
    ) {
        let raised = |token: FencingToken| FencingToken::new((token.get() + 7).min(TOKEN_END - 1)).unwrap();
        let raise = |token: u64| Some((token + 7).min(TOKEN_END - 1));
        let record = encoded(&Lock::kept(Some(lease.clone()), tombstones.clone()));
        let token = raised(lease.token);
        let expected = encoded(&Lock::kept(Some(Lease { token, ..lease.clone() }), tombstones));
        let name = LockName::new("orders/42").unwrap();
        prop_assert_eq!(with_tokens(&Key::of_lock(&name), &record, raise).unwrap(), Some(expected));
        prop_assert_eq!(with_tokens(&Key::of_lock(&name), &record, |_| None).unwrap(), None);
        let mut ended = vec![LAYOUT];
        for Entry { name, ended: end } in &entries {
            ended::append(&mut ended, name, end);
        }
        let renumbered = with_tokens(&Key::of_ended(3), &ended.into(), raise).unwrap().unwrap();
        let of_leases = entries.into_iter().map(|mut entry| {
            if let RequestEnd::Lease(lease) = &mut entry.ended.end {
                lease.token = lease.token.map(raised);
            }
            entry
        });
        prop_assert_eq!(ended::decode(&renumbered).unwrap(), of_leases.collect::<Vec<_>>());
        let shared = Lease { terms: Terms { mode: Mode::Shared, ..lease.terms.clone() }, ..lease };
        let (key, record) = (Key::of_share(&name, shared.grant_id), share::encode(&shared, shared.expires_at));
        prop_assert_eq!(share::decode(&record, shared.grant_id), Ok(Share::Lease(shared.clone())));
        let renumbered = with_tokens(&key, &record, raise).unwrap().unwrap();
        let shared = Lease { token: raised(shared.token), ..shared };
        prop_assert_eq!(&renumbered, &share::encode(&shared, shared.expires_at), "the message writes the same");
        prop_assert_eq!(share::decode(&renumbered, shared.grant_id), Ok(Share::Lease(shared)));
        prop_assert_eq!(with_tokens(&key, &record, |_| None).unwrap(), None);
    }
}

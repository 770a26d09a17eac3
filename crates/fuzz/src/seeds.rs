//! Valid inputs, from which mutation starts: random bytes rarely get past the first check.

mod parcels;

pub use parcels::parcels;

use crate::{METHODS, body};
use fencepost::testing::{
    domain::{
        binding::Binding,
        ended::{Ended, EndedLease, RequestEnd},
        ids::{AttachmentId, Call, CallId, GrantId, LeaseId, ReplicaId, RequestId},
        lease::{Delays, Lease, LeaseEnd, Terms},
        mode::{Mode, PermitLimit, Permits},
        name::{Holder, LockName, Metadata},
        rules::{Delay, Ghost, Lock, Tombstone},
        time::StoreTime,
        token::FencingToken,
    },
    store::partition::record::{Key, ended, lock, share},
};
use fencepost_proto::v1;
use prost::Message;
use std::{env, fs, num::NonZeroU32, path::Path, time::Duration};
use uuid::Uuid;

/// The grant id of the shared lease among the records.
pub const GRANT: GrantId = GrantId(Uuid::from_u128(0x0ea8_5d06_5d6b_4f61_8a5f_1f5e_5c1c_0b11));

/// Writes the seeds to the directory in `FENCEPOST_FUZZ_SEEDS`, if it is set: libFuzzer reads files.
pub fn write(seeds: &[Vec<u8>]) {
    let Some(directory) = env::var_os("FENCEPOST_FUZZ_SEEDS") else { return };
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(Path::new(&directory).join(number.to_string()), seed).expect("a seed can be written");
    }
}

fn span(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

const ID: &str = "0ea85d06-5d6b-4f61-8a5f-1f5e5c1c0b11";
const NAME: &str = "orders/42";

fn acquire() -> v1::AcquireRequest {
    v1::AcquireRequest {
        lock_name: NAME.into(),
        holder: "worker".into(),
        ttl: span(30),
        wait_timeout: span(5),
        request_id: ID.into(),
        attempt: 1,
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        min_token: 7,
        ..Default::default()
    }
}

fn release() -> v1::ReleaseRequest {
    v1::ReleaseRequest { lock_name: NAME.into(), lease_id: ID.into() }
}

fn renew() -> v1::RenewRequest {
    v1::RenewRequest { lock_name: NAME.into(), lease_id: ID.into(), ttl: span(60) }
}

fn attach() -> v1::AttachLeases {
    let (lock_name, lease_id) = (NAME.into(), ID.into());
    let lease = v1::LeaseAttachment { handle: 1, lock_name, lease_id, attempt: 1, release_on_disconnect: true };
    v1::AttachLeases { leases: vec![lease] }
}

/// All client messages of a KeepAlive stream.
fn kept_alive() -> Vec<Vec<u8>> {
    use v1::keep_alive_request::Message::{Answer, Attach, Detach};
    let all = [Attach(attach()), Answer(v1::BeatAnswer { beat: 1 }), Detach(v1::DetachLeases { handles: vec![1, 2] })];
    all.map(|message| v1::KeepAliveRequest { message: Some(message) }.encode_to_vec()).into()
}

/// All client messages of a session, in a valid order: two acquires of one lock, one of them cancelled.
fn sessions() -> Vec<Vec<u8>> {
    use v1::session_request::Message::{Acquire, Answer, Attach, Cancel, Detach, Release, Renew};
    let want =
        |handle, request| Acquire(v1::SessionAcquire { request: Some(request), handle, release_on_disconnect: true });
    let other = v1::AcquireRequest { request_id: String::new(), wait_timeout: span(60), ..acquire() };
    let all = [
        (1, want(2, v1::AcquireRequest { metadata: [].into(), ..acquire() })),
        (2, want(3, other)),
        (0, Answer(v1::BeatAnswer { beat: 1 })),
        (3, Renew(renew())),
        (0, Attach(attach())),
        (0, Cancel(v1::CancelOperation { operation: 2 })),
        (4, Release(release())),
        (0, Detach(v1::DetachLeases { handles: vec![1, 2] })),
    ];
    all.map(|(operation, message)| v1::SessionRequest { operation, message: Some(message) }.encode_to_vec()).into()
}

/// A complete session.
pub fn session() -> Vec<u8> {
    [vec![method("Session")], body::encode(&sessions(), true)].concat()
}

/// A request of each method; of streams also each message by itself.
pub fn requests() -> Vec<Vec<u8>> {
    let name = NAME.to_owned();
    let calls = [
        ("Acquire", acquire().encode_to_vec()),
        ("Release", release().encode_to_vec()),
        ("Renew", renew().encode_to_vec()),
        ("Get", v1::GetRequest { lock_name: name.clone() }.encode_to_vec()),
        ("List", v1::ListRequest { prefix: "or".into(), page_size: 3, page_token: String::new() }.encode_to_vec()),
        ("Watch", v1::WatchRequest { prefix: "or".into() }.encode_to_vec()),
        ("CheckToken", v1::CheckTokenRequest { lock_name: name.clone(), fencing_token: 7 }.encode_to_vec()),
        (
            "ForceRelease",
            v1::ForceReleaseRequest { lock_name: name, expected_token: 7, reason: "x".into() }.encode_to_vec(),
        ),
    ];
    let streams = [("KeepAlive", kept_alive()), ("Session", sessions())].into_iter().flat_map(|(method, messages)| {
        let whole = [true, false].map(|ends| (method, body::encode(&messages, ends)));
        let each = messages.into_iter().map(move |message| (method, body::encode(&[message], true)));
        whole.into_iter().chain(each.collect::<Vec<_>>())
    });
    calls.into_iter().chain(streams).map(|(name, message)| [vec![method(name)], message].concat()).collect()
}

/// The byte that selects a method.
fn method(name: &str) -> u8 {
    let index = METHODS.iter().position(|path| path.ends_with(&format!("/{name}")));
    u8::try_from(index.expect("it is a method")).expect("there are few")
}

fn text(number: u8, text: &str) -> Vec<u8> {
    [&[number], text.as_bytes()].concat()
}

/// Records and keys of a partition. The first byte is the kind: 0 for a lock, 1 for ended requests, 2 for a key.
pub fn records() -> Vec<Vec<u8>> {
    let (id, until) = (GRANT.0, StoreTime::from_micros(1 << 50));
    let call = Call { request: RequestId(id), attempt: 2, id: CallId(1) };
    let name = LockName::new(NAME).expect("it is a name");
    let metadata = Metadata::new([("k".to_owned(), "v".to_owned())]).expect("it is short");
    let holder = Holder::new("worker".to_owned()).expect("it is a label");
    let token = FencingToken::new(7);
    let lease = Lease {
        request: call.request,
        binding: Binding::first(call, ReplicaId(id)),
        terms: Terms {
            fingerprint: 1,
            ttl: Duration::from_secs(30),
            holder,
            metadata,
            min_token: 3,
            max_hold: None,
            extra: None,
            mode: Default::default(),
        },
        lease_id: LeaseId(id),
        grant_id: GrantId(id),
        token: token.expect("it is one"),
        granted_at: StoreTime::from_micros(1 << 49),
        expires_at: until,
        previous_end: Some(LeaseEnd::Expired),
        attachment: Some(AttachmentId(id)),
        attachment_replica: ReplicaId(id),
        attachment_attempt: 1,
        unheard: true,
        heard: true,
        told_wanted: false,
    };
    let shared = Lease { terms: Terms { mode: Mode::Shared, ..lease.terms.clone() }, ..lease.clone() };
    let limit = PermitLimit { permits: 10, version: 3 };
    let permits = Permits { count: 1, limit, slot: NonZeroU32::new(2) };
    let mode = Mode::Semaphore(Box::new(permits));
    let permit = Lease { terms: Terms { mode, ..lease.terms.clone() }, ..lease.clone() };
    let mut semaphore = Lock::default();
    semaphore.keep_permit_limit(limit);
    let locks = [
        semaphore,
        Lock::kept(Some(lease.clone()), Vec::new()),
        Lock::kept(Some(lease), vec![Tombstone { call, until }]),
        Lock::kept(None, vec![Tombstone { call, until }; 2]),
    ];
    let end = LeaseEnd::Released;
    let of_lease = RequestEnd::Lease(EndedLease { lease_id: LeaseId(id), token, end, handed_on: LeaseEnd::Expired });
    let delay = Delay {
        ended: Ended { request: call.request, fingerprint: 1, end: of_lease, at: until },
        token: shared.token,
        holder: shared.terms.holder.clone(),
        delays: Delays { min_hold: Duration::from_secs(60), lock_delay: Duration::from_secs(5) },
        held_until: until,
        delayed_until: until,
    };
    let ghost = Ghost { delay, grant_id: GRANT, mode: permit.terms.mode.clone() };
    let shares = [shared, permit].map(|lease| share::encode(&lease, until));
    let shares = shares.into_iter().chain([share::encode_ghost(&ghost)]).map(|record| [&[3], &record[..]].concat());
    let locks = locks.iter().filter_map(|lock| lock::encode(lock, until)).map(|record| [&[0], &record[..]].concat());
    let mut ends = Vec::new();
    for end in [of_lease, RequestEnd::TimedOut, RequestEnd::Abandoned, RequestEnd::Refused(3)] {
        let ended = Ended { request: call.request, fingerprint: 1, end, at: until };
        ended::append(&mut ends, &name, &ended);
    }
    let keys = [Key::of_lock(&name), Key::of_ended(300), Key::of_share(&name, GrantId(id))]
        .map(|key| [&[2], &key[..]].concat());
    locks.chain([[&[1], &ends[..]].concat()]).chain(shares).chain(keys).collect()
}

/// Inputs of the target for access: the kind, and a file, an `authorization` or a certificate.
pub fn access() -> Vec<Vec<u8>> {
    const SIGNED: &str = "Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ.\
        eyJpc3MiOiJpIiwiYXVkIjoiYSIsInN1YiI6InMiLCJleHAiOjk5OTk5OTk5OTk5fQ.\
        AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-Pw";
    const UNSIGNED: &str = "Bearer eyJhbGciOiJub25lIn0.\
        eyJpc3MiOiJpIiwiYXVkIjoiYSIsInN1YiI6InMiLCJleHAiOjk5OTk5OTk5OTk5fQ.";
    let file = include_bytes!("../../../deploy/access/access.toml");
    let inputs: [(u8, &[u8]); 5] = [
        (0, file),
        (1, SIGNED.as_bytes()),
        (1, UNSIGNED.as_bytes()),
        (1, b"Bearer fp_token"),
        (2, &[0x30, 0x03, 2, 1, 0]),
    ];
    inputs.iter().map(|(kind, bytes)| [&[*kind], *bytes].concat()).collect()
}

/// Plausible configurations.
pub fn configurations() -> Vec<Vec<u8>> {
    let file = fencepost::testing::config::Config::default().to_toml();
    vec![
        text(0, &file),
        text(0, "ttl_min = \"1s\"\nlisten = \"[::1]:1\"\nwaiters_per_lock = 7\n"),
        text(
            1,
            "127.0.0.1:0\0redis://u:p@h:1/2\0true\0lock:\x001s\x002h\x005s\x007\x008\x009\x005s\0json\0\
            info,a::b=debug",
        ),
        text(2, "redis://user:pass%20word@[::1]:6379/3?protocol=resp3"),
        text(2, "rediss://h:1/#insecure"),
    ]
}

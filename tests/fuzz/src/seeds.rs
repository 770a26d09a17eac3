//! Good inputs, from which random changes begin: bytes made up from nothing hardly ever get past the first check.

use crate::{METHODS, talk};
use fencepost_proto::v1;
use prost::Message;
use std::{env, fs, path::Path};

/// Writes these to the folder that `FENCEPOST_FUZZ_SEEDS` names, if it does: libFuzzer reads files.
pub fn write(seeds: &[Vec<u8>]) {
    let Some(folder) = env::var_os("FENCEPOST_FUZZ_SEEDS") else { return };
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(Path::new(&folder).join(number.to_string()), seed).expect("a seed can be written");
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

/// All that can be said on a KeepAlive stream.
fn kept_alive() -> Vec<Vec<u8>> {
    use v1::keep_alive_request::Message::{Answer, Attach, Detach};
    let all = [Attach(attach()), Answer(v1::BeatAnswer { beat: 1 }), Detach(v1::DetachLeases { handles: vec![1, 2] })];
    all.map(|message| v1::KeepAliveRequest { message: Some(message) }.encode_to_vec()).into()
}

/// All that can be said on a session, in one that does not break a rule: two that want one lock, of which one gives up.
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

/// A session from its beginning to its end.
pub fn session() -> Vec<u8> {
    [vec![number("Session")], talk::written(&sessions(), true)].concat()
}

/// One of each method; of streams each message by itself as well.
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
        let whole = [true, false].map(|ends| (method, talk::written(&messages, ends)));
        let each = messages.into_iter().map(move |message| (method, talk::written(&[message], true)));
        whole.into_iter().chain(each.collect::<Vec<_>>())
    });
    calls.into_iter().chain(streams).map(|(method, said)| [vec![number(method)], said].concat()).collect()
}

/// The byte that picks a method.
fn number(method: &str) -> u8 {
    let place = METHODS.iter().position(|path| path.ends_with(&format!("/{method}")));
    u8::try_from(place.expect("it is a method")).expect("there are few")
}

fn text(number: u8, text: &str) -> Vec<u8> {
    [&[number], text.as_bytes()].concat()
}

/// What Redis may well say.
pub fn answers() -> Vec<Vec<u8>> {
    let id = "0ea85d065d6b4f618a5f1f5e5c1c0b11";
    let strings = |words: &[&str]| {
        let each = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), each.collect::<String>())
    };
    let answer = |code: &str, details: &[&str], effects: &str| {
        format!("*4\r\n$16\r\n1795000000000000\r\n${}\r\n{code}\r\n{}{effects}", code.len(), strings(details))
    };
    let look = format!("*1\r\n{}", strings(&["look", id, id, "1"]));
    let ended = format!("*1\r\n{}", strings(&["ended", "E", id, "1795000000000000", id, "holder", id, id]));
    let event = format!("*1\r\n{}", strings(&["event", "G", "1795000000000000", id, "holder", "", "name"]));
    let seen = |fields: &[[&str; 2]]| {
        text(
            3,
            &format!(
                "*4\r\n$16\r\n1795000000000000\r\n$4\r\nseen\r\n*2\r\n{}$1\r\n0\r\n*0\r\n",
                strings(&fields.concat())
            ),
        )
    };
    vec![
        text(3, &answer("granted", &[id, id, "1795000000000000", "30000000", "R"], &look)),
        text(
            3,
            &answer("contended", &["2", "holder", "[[\"k\",\"v\"]]", id, "1795000000000000", "1", "2", "3"], "*0\r\n"),
        ),
        text(3, &answer("contended", &["2", "-1"], &event)),
        text(3, &answer("timed_out", &["0"], "*0\r\n")),
        text(3, &answer("released", &[], &ended)),
        text(3, &answer("gone", &["E", "1795000000000000"], "*0\r\n")),
        text(3, &answer("renewed", &["1795000000000000", "30000000", "29000000"], "*0\r\n")),
        text(3, &answer("revoked", &["holder"], &ended)),
        text(3, &answer("token_mismatch", &["1795000000000000"], "*0\r\n")),
        text(3, &answer("meta", &["1024", "1", "lock:"], "*0\r\n")),
        seen(&[
            ["li", id],
            ["tt", "30000000"],
            ["ex", "1795000020000000"],
            ["tk", "1795000000000000"],
            ["ho", "holder"],
            ["md", "[]"],
            ["gi", id],
            ["gr", "1795000000000000"],
            ["pe", "R"],
        ]),
        seen(&[["la", "1795000000000000"], ["le", "V"], ["lt", "1795000000000000"]]),
        text(
            3,
            &format!(
                "*4\r\n$1\r\n1\r\n$4\r\neach\r\n*2\r\n*3\r\n$7\r\nrenewed\r\n{}{look}*3\r\n$6\r\nbroken\r\n{}*0\r\n*0\r\n",
                strings(&["1795000000000000", "30000000", "29000000"]),
                strings(&["WRONGTYPE"])
            ),
        ),
        text(3, "*4\r\n$1\r\n1\r\n$6\r\npolled\r\n*1\r\n*4\r\n$0\r\n\r\n$1\r\n0\r\n$1\r\n0\r\n$1\r\n7\r\n*0\r\n"),
        text(0, &format!("look\n{id}\n{id}\n1\nname")),
        text(0, &format!("event\nG\n1795000000000000\n{id}\nholder\n\nname")),
        text(
            1,
            "redis_version:7.0.15\r\nrole:master\r\nslave0:ip=1,port=2,state=online,offset=9,lag=0\r\nmaxmemory:100\r\n",
        ),
        text(1, "used_memory:99\r\nmaxmemory:100\r\nsave:3600 1 300 100\r\n1 2 3\r\nmin-replicas-to-write:x"),
        text(2, "fp:{3f}:l:a*[b]"),
    ]
}

/// What an operator may well say.
pub fn configurations() -> Vec<Vec<u8>> {
    let file = fencepost::config::Config::default().to_toml();
    vec![
        text(0, &file),
        text(0, "ttl_min = \"1s\"\nlisten = \"[::1]:1\"\nwaiters_per_lock = 7\n"),
        text(
            1,
            "127.0.0.1:0\0redis://u:p@h:1/2\0true\0lock:\x001s\x002h\x005s\x007\x008\x009\x005s\0json\0info,a::b=debug",
        ),
        text(2, "redis://user:pass%20word@[::1]:6379/3?protocol=resp3"),
        text(2, "rediss://h:1/#insecure"),
    ]
}

//! A slice of the fuzzing in every test run: good inputs, and thousands of random changes to them.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use fencepost_fuzz::{METHODS, config, redis, request};
use fencepost_proto::v1;
use prost::Message;
use tonic::Code;

/// Changes to each seed.
const ROUNDS: u64 = 400;

/// A small generator: the same inputs in every run, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// One to four changes: a bit, a byte, a piece left out, said twice or brought in from another seed.
    fn change(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let (from, to) = (self.below(bytes.len()), self.below(bytes.len() + 1));
            let piece = from.min(to)..from.max(to);
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[from] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[from] = [0, 1, 0x7f, 0x80, 0xff, b'\n'][self.below(6)],
                2 => drop(bytes.drain(piece)),
                3 => {
                    let twice = bytes[piece.clone()].to_vec();
                    bytes.splice(piece.start..piece.start, twice);
                }
                _ => {
                    let other = &others[self.below(others.len())];
                    bytes.splice(piece, other[self.below(other.len())..].iter().copied());
                }
            }
        }
        bytes
    }
}

fn throw(seeds: &[Vec<u8>], target: impl Fn(&[u8])) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    target(&[]);
    for seed in seeds {
        target(seed);
        for _ in 0..ROUNDS {
            target(&random.change(seed, seeds));
        }
    }
}

fn span(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn requests() -> Vec<Vec<u8>> {
    let id = "0ea85d06-5d6b-4f61-8a5f-1f5e5c1c0b11".to_owned();
    let name = "orders/42".to_owned();
    let acquire = v1::AcquireRequest {
        lock_name: name.clone(),
        holder: "worker".into(),
        ttl: span(30),
        wait_timeout: span(5),
        request_id: id.clone(),
        attempt: 1,
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        min_token: 7,
        ..Default::default()
    };
    let attach = v1::KeepAliveRequest {
        message: Some(v1::keep_alive_request::Message::Attach(v1::AttachLeases {
            leases: vec![v1::LeaseAttachment {
                handle: 1,
                lock_name: name.clone(),
                lease_id: id.clone(),
                attempt: 1,
                release_on_disconnect: true,
            }],
        })),
    };
    let messages = [
        acquire.encode_to_vec(),
        v1::ReleaseRequest { lock_name: name.clone(), lease_id: id.clone() }.encode_to_vec(),
        v1::RenewRequest { lock_name: name.clone(), lease_id: id, ttl: span(60) }.encode_to_vec(),
        attach.encode_to_vec(),
        v1::GetRequest { lock_name: name.clone() }.encode_to_vec(),
        v1::ListRequest { prefix: "or".into(), page_size: 3, page_token: String::new() }.encode_to_vec(),
        v1::WatchRequest { prefix: "or".into() }.encode_to_vec(),
        v1::CheckTokenRequest { lock_name: name.clone(), fencing_token: 7 }.encode_to_vec(),
        v1::ForceReleaseRequest { lock_name: name, expected_token: 7, reason: "x".into() }.encode_to_vec(),
    ];
    let numbered = messages.into_iter().zip(0_u8..);
    numbered.map(|(message, method)| [vec![method], message].concat()).collect()
}

#[test]
fn no_request_makes_the_server_panic_or_blame_itself() {
    let seeds = requests();
    assert_eq!(request(&seeds[0]), Some(Code::Ok), "{} is reached", METHODS[0]);
    throw(&seeds, |bytes| {
        request(bytes);
    });
}

fn text(number: u8, text: &str) -> Vec<u8> {
    [&[number], text.as_bytes()].concat()
}

#[test]
fn nothing_that_redis_says_makes_it_panic() {
    let id = "0ea85d065d6b4f618a5f1f5e5c1c0b11";
    let word = |word: &str| [&[0xd9, u8::try_from(word.len()).unwrap()], word.as_bytes()].concat();
    let list = |values: &[Vec<u8>]| [vec![0x90 | u8::try_from(values.len()).unwrap()], values.concat()].concat();
    let words = |words: &[&str]| list(&words.iter().map(|one| word(one)).collect::<Vec<_>>());
    let number = |number: u64| [vec![0xcf], number.to_be_bytes().to_vec()].concat();
    let answer = |code: &str, details: Vec<u8>, effects: Vec<u8>| [vec![3], word(code), details, effects].concat();
    let (token, none) = (number(1_795_000_000_000_000), list(&[]));
    let look = list(&[list(&[word("look"), word(id), word(id), vec![1]])]);
    let event = list(&[words(&["event", "G", "1795000000000000", id, "holder", "", "name"])]);
    let current = [vec![2], word("holder"), word("{}"), word(id), token.clone(), vec![1], vec![2], vec![3]];
    let seeds = [
        answer("granted", list(&[word(id), word(id), token.clone(), number(30_000_000), word("R")]), look),
        answer("contended", list(&current), none.clone()),
        answer("contended", list(&[vec![2], vec![0xff]]), event),
        answer("gone", list(&[word("E"), token.clone()]), none.clone()),
        answer("renewed", list(&[token, number(30_000_000), number(29_000_000)]), none.clone()),
        answer("meta", words(&["1024", "2", "lock:"]), none.clone()),
        answer("seen", list(&[list(&[word("li"), word("x"), word("ex"), vec![9]]), vec![0]]), none.clone()),
        answer("broken", words(&["WRONGTYPE"]), none.clone()),
        answer("polled", list(&[list(&[word(""), vec![0], vec![0], word("")])]), none),
        text(0, &format!("look\n{id}\n{id}\n1\nname")),
        text(0, &format!("event\nG\n1795000000000000\n{id}\nholder\n\nname")),
        text(
            1,
            "redis_version:7.0.15\r\nrole:master\r\nslave0:ip=1,port=2,state=online,offset=9,lag=0\r\nmaxmemory:100\r\n",
        ),
        text(1, "used_memory:99\r\nmaxmemory:100\r\nsave:3600 1 300 100\r\n1 2 3\r\nmin-replicas-to-write:x"),
        text(2, "fp:{3f}:l:a*[b]"),
    ];
    throw(&seeds, redis);
}

#[test]
fn no_configuration_makes_it_panic() {
    let file = fencepost::config::Config::default().to_toml();
    let seeds = [
        text(0, &file),
        text(0, "ttl_min = \"1s\"\nlisten = \"[::1]:1\"\nwaiters_per_lock = 7\n"),
        text(
            1,
            "127.0.0.1:0\0redis://u:p@h:1/2\0true\0lock:\x001s\x002h\x005s\x007\x008\x009\x005s\0json\0info,a::b=debug",
        ),
        text(2, "redis://user:pass%20word@[::1]:6379/3?protocol=resp3"),
        text(2, "rediss://h:1/#insecure"),
    ];
    throw(&seeds, config);
}

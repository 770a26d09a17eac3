//! A client that sends thousands of calls at once does not delay those of others until all of its own are done.
//!
//! Server and test share one thread, so that the order of events does not depend on the machine: the server finds
//! whatever the test has written between two awaits.

use crate::support::{Server, within};
use fencepost_proto::v1::{self, acquire_response::Outcome};
use prost::Message as _;
use std::{io::Write, net::SocketAddr};
use tokio::{io::AsyncReadExt, net::TcpStream};

/// More calls than a connection reads in a turn.
const CALLS: u32 = 1_500;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The types of frames, and the flags at their end.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const HEAD_BYTES: usize = 9;
const PREFIX_BYTES: usize = 5;
/// Room for all answers.
const WINDOW: u32 = 1 << 24;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A call that acquires a lock if it is free.
fn acquire(stream: u32, name: &str) -> Vec<u8> {
    // Indices of HPACK's static table (POST, http, path, content-type), and literals with their lengths.
    let literal = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let path = literal("/fencepost.v1.LockService/Acquire");
    let headers = [vec![0x83, 0x86, 0x04], path, vec![0x0f, 0x10], literal("application/grpc")].concat();
    let request = v1::AcquireRequest { lock_name: name.to_owned(), ..v1::AcquireRequest::default() }.encode_to_vec();
    let prefix = [&[0], &u32::try_from(request.len()).unwrap().to_be_bytes()[..]].concat();
    let message = frame(DATA, END_STREAM, stream, &[prefix, request].concat());
    [frame(HEADERS, END_HEADERS, stream, &headers), message].concat()
}

struct Connection {
    writes: std::net::TcpStream,
    reads: TcpStream,
}

impl Connection {
    /// A connection that has carried out a call.
    async fn open(to: SocketAddr, name: &str) -> Self {
        let reads = TcpStream::connect(to).await.unwrap().into_std().unwrap();
        let writes = reads.try_clone().unwrap();
        let mut connection = Self { writes, reads: TcpStream::from_std(reads).unwrap() };
        let window = frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        connection.write(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &window, &acquire(1, name)].concat());
        assert_eq!(connection.answer().await.outcome(), Outcome::Acquired);
        connection
    }

    /// Writes without an await. Fails if the kernel has no room for all of it.
    fn write(&mut self, bytes: &[u8]) {
        self.writes.write_all(bytes).unwrap();
    }

    /// The next answer.
    async fn answer(&mut self) -> v1::AcquireResponse {
        loop {
            let mut head = [0; HEAD_BYTES];
            within(self.reads.read_exact(&mut head)).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            within(self.reads.read_exact(&mut payload)).await.unwrap();
            if head[3] == DATA && !payload.is_empty() {
                return v1::AcquireResponse::decode(&payload[PREFIX_BYTES..]).unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_does_not_wait_for_thousands_that_another_connection_sent_before() {
    let server = Server::start().await;
    let mut busy = Connection::open(server.addr, "busy").await;
    let mut other = Connection::open(server.addr, "other").await;
    let name = |number: u32| format!("lock/{number}");
    let calls: Vec<u8> = (1..=CALLS).flat_map(|number| acquire(2 * number + 1, &name(number))).collect();
    // Both want the last lock. It goes to the one whose call is carried out first.
    busy.write(&calls);
    other.write(&acquire(3, &name(CALLS)));
    assert_eq!(other.answer().await.outcome(), Outcome::Acquired);
    for _ in 1..CALLS {
        assert_eq!(busy.answer().await.outcome(), Outcome::Acquired);
    }
    assert_eq!(busy.answer().await.outcome(), Outcome::Contended);
}

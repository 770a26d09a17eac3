//! Ports at which something else than gRPC is spoken: a call says so, within its bounds.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;

use fake::{Do, Fake};
use fencepost_client::{AcquireError, CallError, Client, v1};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Status;

const RETRY_FOR: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_millis(300);
/// Far more than the bounds above, however busy the machine is.
const BOUND: Duration = Duration::from_secs(10);

/// What a server does with a connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Reads something, and answers it.
    Answers(&'static [u8]),
    /// Speaks first, and then listens.
    SpeaksFirst(&'static [u8]),
    Silent,
    Closes,
}

/// A server with these manners, at the address that is returned.
async fn server(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(talk(stream, manner));
        }
    });
    address
}

async fn talk(mut stream: TcpStream, manner: Manner) {
    let mut asked = [0; 1024];
    match manner {
        Manner::Closes => return,
        Manner::Silent => {}
        Manner::SpeaksFirst(words) => {
            let _ = stream.write_all(words).await;
        }
        Manner::Answers(words) => {
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(words).await;
        }
    }
    while matches!(stream.read(&mut asked).await, Ok(1..)) {}
}

fn client(address: &str) -> Client {
    Client::builder().server(address).retry_for(RETRY_FOR).call_timeout(CALL).build().unwrap()
}

fn get() -> v1::GetRequest {
    v1::GetRequest { lock_name: "x".to_owned() }
}

/// What the calls of a client, unary and on a session, say of this server.
async fn said_of(address: &str) -> Vec<CallError> {
    tokio::time::timeout(BOUND, calls_fail(address)).await.expect("errors in time")
}

async fn calls_fail(address: &str) -> Vec<CallError> {
    let got = client(address).calls().get(get()).await.unwrap_err();
    let drained = client(address).calls().drain(v1::DrainRequest {}).await.unwrap_err();
    let acquired = match client(address).acquire("x").await.unwrap_err() {
        AcquireError::Unavailable { source } | AcquireError::OutcomeUnknown { source } => source,
        other => panic!("{other:?}"),
    };
    vec![got, drained, acquired]
}

#[tokio::test]
async fn a_port_that_speaks_something_else_is_not_grpc() {
    for (manner, why) in [
        (
            Manner::Answers(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
            "it sent \"HTTP/1.1 400 Bad Request\"",
        ),
        (Manner::Answers(b"-ERR unknown command 'PRI'\r\n"), "it sent \"-ERR unknown command 'PRI'\""),
        (Manner::SpeaksFirst(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "it sent \"SSH-2.0-OpenSSH_9.2p1\""),
        (Manner::Answers(&[0x15, 3, 3, 0, 2, 2, 70]), "it sent a TLS alert"),
        (Manner::SpeaksFirst(&[0, 0, 0, 10, 1]), "it sent bytes that are not HTTP/2"),
    ] {
        let address = server(manner).await;
        for error in said_of(&address).await {
            let said = error.not_grpc().unwrap_or_else(|| panic!("{manner:?}: {error:?}"));
            assert!(said.starts_with(&format!("{address} does not speak gRPC")) && said.contains(why), "{said}");
            assert_eq!(error.to_string(), said, "nothing was done, so nothing is unknown");
            assert!(error.is_unreachable() && !error.is_outcome_unknown());
        }
    }
}

/// It may as well be a server that hangs: what it was sent, it may still read.
#[tokio::test]
async fn a_port_that_says_nothing_is_not_grpc_or_hangs() {
    for (manner, why) in [
        (Manner::Silent, "does not speak gRPC, or hangs (it accepted the connection and sent nothing)"),
        (Manner::Closes, "does not speak gRPC (it closed the connection and sent nothing)"),
    ] {
        let address = server(manner).await;
        for error in said_of(&address).await {
            assert_eq!(error.not_grpc(), Some(format!("{address} {why}").as_str()), "{manner:?}: {error:?}");
        }
    }
    let silent = server(Manner::Silent).await;
    let error = client(&silent).calls().get(get()).await.unwrap_err();
    assert!(error.is_outcome_unknown() && error.to_string().starts_with("outcome unknown: "), "{error}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_something_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = client(&address).calls().get(get()).await.unwrap_err();
    assert!(error.is_unreachable() && error.not_grpc().is_none(), "{error:?}");
}

#[tokio::test]
async fn a_server_that_fails_does_speak_grpc() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(Status::unavailable("busy")));
    let error = client(&fake.url).calls().acquire(v1::AcquireRequest::default()).await.unwrap_err();
    assert!(error.not_grpc().is_none() && error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test]
async fn beside_a_server_that_works_nobody_notices() {
    let fake = Fake::start().await;
    for manner in [Manner::Answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Manner::Closes] {
        let client = Client::builder().server(server(manner).await).server(&fake.url).build().unwrap();
        assert!(client.acquire("x").await.unwrap().is_valid());
    }
}

//! Ports that speak another protocol: calls report it, within their bounds.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;

use fake::{Do, Fake};
use fencepost_client::{AcquireError, CallError, Client, raw::v1};
use std::future::IntoFuture;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::Status;

const RETRY_FOR: Duration = Duration::from_millis(500);
const CALL: Duration = Duration::from_millis(300);
/// Far longer than the bounds above, even on a busy machine.
const BOUND: Duration = Duration::from_secs(10);

/// How a server treats a connection.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    /// Reads, then sends this.
    Answers(&'static [u8]),
    /// Sends this first, then reads.
    SpeaksFirst(&'static [u8]),
    Silent,
    Closes,
}

/// Starts a server with this behaviour and returns its address.
async fn server(behaviour: Behaviour) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(talk(stream, behaviour));
        }
    });
    address
}

async fn talk(mut stream: TcpStream, behaviour: Behaviour) {
    let mut asked = [0; 1024];
    match behaviour {
        Behaviour::Closes => return,
        Behaviour::Silent => {}
        Behaviour::SpeaksFirst(words) => {
            let _ = stream.write_all(words).await;
        }
        Behaviour::Answers(words) => {
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

/// The errors of a client's calls, unary and on a session.
async fn errors_of(address: &str) -> Vec<CallError> {
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
async fn a_port_with_another_protocol_is_not_grpc() {
    for (behaviour, why) in [
        (
            Behaviour::Answers(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
            "it sent \"HTTP/1.1 400 Bad Request\"",
        ),
        (Behaviour::Answers(b"-ERR unknown command 'PRI'\r\n"), "it sent \"-ERR unknown command 'PRI'\""),
        (Behaviour::SpeaksFirst(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "it sent \"SSH-2.0-OpenSSH_9.2p1\""),
        (Behaviour::Answers(&[0x15, 3, 3, 0, 2, 2, 70]), "it sent a TLS alert"),
        (Behaviour::SpeaksFirst(&[0, 0, 0, 10, 1]), "it sent bytes that are not HTTP/2"),
    ] {
        let address = server(behaviour).await;
        for error in errors_of(&address).await {
            let message = error.not_grpc().unwrap_or_else(|| panic!("{behaviour:?}: {error:?}"));
            assert!(
                message.starts_with(&format!("{address} does not speak gRPC")) && message.contains(why),
                "{message}"
            );
            assert_eq!(error.to_string(), format!("no server could be reached: {message}"));
            assert!(error.is_unreachable() && error.is_unavailable() && !error.is_outcome_unknown());
        }
    }
}

/// A retry cannot help, so a call does not use up its time.
#[tokio::test]
async fn what_stays_wrong_ends_a_call_at_once_if_no_other_server_is_left() {
    let patient = Duration::from_secs(300);
    let builder = || Client::builder().retry_for(patient);
    let web = server(Behaviour::Answers(b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    let redis = server(Behaviour::Answers(b"-ERR unknown command 'PRI'\r\n")).await;
    let client = builder().server(&web).build().unwrap();
    let error =
        tokio::time::timeout(BOUND, client.acquire("x").wait(patient).into_future()).await.unwrap().unwrap_err();
    let message =
        format!("no server could be reached: {web} does not speak gRPC (it sent \"HTTP/1.1 400 Bad Request\")");
    assert_eq!(error.to_string(), message);
    let client = builder().server(&web).server(&redis).build().unwrap();
    let error =
        tokio::time::timeout(BOUND, client.acquire("x").wait(patient).into_future()).await.unwrap().unwrap_err();
    let other = format!("{redis} does not speak gRPC (it sent \"-ERR unknown command 'PRI'\")");
    assert_eq!(error.to_string(), format!("{message}; {other}"), "each server that was tried");
    // Another server may come back.
    let client = Client::builder().server(&web).server(closed_port().await).retry_for(RETRY_FOR).build().unwrap();
    let error = client.acquire("x").await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("{message}; 127.0.0.1:")), "{error}");
}

#[tokio::test]
async fn a_grpc_server_of_another_service_is_no_fencepost() {
    let fake = Fake::start().await;
    fake.state().refuses = Some(Status::unimplemented(""));
    let client = Client::builder().server(&fake.url).retry_for(Duration::from_secs(300)).build().unwrap();
    let address = fake.url.trim_start_matches("http://");
    let message = format!("{address} {}", fencepost_client::facts::NOT_FENCEPOST);
    let unary = tokio::time::timeout(BOUND, client.calls().get(get())).await.unwrap().unwrap_err();
    let acquire = tokio::time::timeout(BOUND, client.acquire("x").into_future()).await.unwrap().unwrap_err();
    assert_eq!((unary.to_string(), acquire.to_string()), (message.clone(), message.clone()));
    assert!(!unary.is_unavailable() && matches!(acquire, AcquireError::Refused { .. }), "{acquire:?}");
    // Another server may be the right one, or may come back.
    let right = Fake::start().await;
    let client = Client::builder().server(&fake.url).server(&right.url).build().unwrap();
    assert!(client.acquire("x").await.unwrap().is_valid());
    let nobody = closed_port().await;
    let client = Client::builder().server(&nobody).server(&fake.url).retry_for(RETRY_FOR).build().unwrap();
    let error = client.acquire("x").await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.starts_with("no server could be reached: ") && error.contains(&nobody), "{error}");
    assert!(error.contains(&message), "{error}");
}

async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// It may be a hanging gRPC server that still reads what was sent.
#[tokio::test]
async fn a_silent_port_is_not_grpc_or_hangs() {
    for (behaviour, why) in [
        (Behaviour::Silent, "does not speak gRPC, or hangs (it accepted the connection and sent nothing)"),
        (
            Behaviour::Closes,
            "does not speak gRPC without TLS (it closed the connection and sent nothing); if it is a port with TLS, \
             write https:// in front of the address",
        ),
    ] {
        let address = server(behaviour).await;
        for error in errors_of(&address).await {
            assert_eq!(error.not_grpc(), Some(format!("{address} {why}").as_str()), "{behaviour:?}: {error:?}");
        }
    }
    let silent = server(Behaviour::Silent).await;
    let error = client(&silent).calls().get(get()).await.unwrap_err();
    assert!(error.is_outcome_unknown() && error.to_string().starts_with("outcome unknown: "), "{error}");
}

#[tokio::test]
async fn a_closed_port_is_unreachable() {
    let address = closed_port().await;
    let error = client(&address).calls().get(get()).await.unwrap_err();
    assert!(error.is_unreachable() && error.not_grpc().is_none(), "{error:?}");
}

#[tokio::test]
async fn a_failing_server_does_speak_grpc() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(Status::unavailable("busy")));
    let error = client(&fake.url).calls().acquire(v1::AcquireRequest::default()).await.unwrap_err();
    assert!(error.not_grpc().is_none() && error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test]
async fn a_working_server_hides_such_a_port() {
    let fake = Fake::start().await;
    for behaviour in [Behaviour::Answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Behaviour::Closes] {
        let client = Client::builder().server(server(behaviour).await).server(&fake.url).build().unwrap();
        assert!(client.acquire("x").await.unwrap().is_valid());
    }
}

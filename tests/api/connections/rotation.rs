//! Files of TLS that change while the server runs. Open connections go on, and new ones use the new files.

use crate::{
    certificates::{Authority, Valid},
    metrics::{WITH_ADMIN, becomes},
    session_stream::Session,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, until, within},
    tls_client::{TlsClient, calls},
    tls_server::{Files, addr, server},
};
use fencepost_proto::v1::{
    LeaseEnd, acquire_response::Outcome, keep_alive_response::Message as ServerMessage,
    session_response::Message as SessionMessage,
};
use std::time::Duration;
use tokio::sync::oneshot;

/// Long enough that a busy machine does not lose a lease.
const TTL: Duration = Duration::from_secs(6);
/// For how long one of the two streams is served, while the other waits.
const TURN: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_new_certificate_reaches_new_connections_and_ends_no_stream() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = Files::new(&old.issue("server"));
    let server = server(&files.flags());
    let addr = addr(&server);
    let mut client = calls(addr, &old, None);

    let lease = client.acquire_lease(acquire_request("kept", TTL)).await;
    let mut stream = Stream::open(client.clone()).await;
    stream.attach(vec![attachment(1, &lease)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    let mut session = Session::open(client.clone()).await;
    let held = session.acquire_lease(1, acquire_request("session", TTL)).await;

    let (rotated, mut end) = oneshot::channel();
    let rotate = async {
        let renewed = new.issue("server");
        // First only half of it, as tools do that write one file after the other.
        files.write("key.pem", &renewed.key);
        until(async || server.log().contains("does not belong to the certificate")).await;
        assert!(within(TlsClient::new(addr, &[&old], None).ask()).await.is_ok(), "the old files are kept");
        files.put(&renewed);
        let client = TlsClient::new(addr, &[&new], None);
        until(async || client.ask().await.is_ok_and(|seen| seen.cert == renewed.der)).await;
        assert!(within(TlsClient::new(addr, &[&old], None).ask()).await.is_err());
        rotated.send(()).unwrap();
    };
    let serve = async {
        let (mut renewed, mut operation) = (0, 1);
        let mut after = None;
        // Two TTLs beyond the rotation.
        while after != Some(0) {
            renewed += stream.answer_for(TURN, |_| true).await;
            operation += 1;
            still_serves(&mut session, operation).await;
            after = match after {
                None => end.try_recv().is_ok().then_some(2 * TTL.as_millis() / TURN.as_millis()),
                Some(left) => Some(left - 1),
            };
        }
        assert!(renewed > 4, "{renewed}");
        operation += 1;
        session.release(operation, &held).await;
        loop {
            match session.answer().await {
                (0, SessionMessage::Renewed(_)) => {}
                (answered, SessionMessage::Release(answer)) if answered == operation => {
                    break assert_eq!(answer.end(), LeaseEnd::Released);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(client.release_lease(&lease).await, LeaseEnd::Released);
    };
    tokio::join!(rotate, serve);
    assert_eq!(server.log().matches("keeping the old ones").count(), 1, "{}", server.log());
}

/// Carries out an operation on the session, which may renew its leases meanwhile but not lose one.
async fn still_serves(session: &mut Session, operation: u64) {
    session.acquire(operation, acquire_request("session", TTL)).await;
    loop {
        match session.answer().await {
            (0, SessionMessage::Renewed(_)) => {}
            (answered, SessionMessage::Acquire(answer)) if answered == operation => {
                assert_eq!(answer.outcome(), Outcome::Contended);
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_removed_authority_ends_resumption_and_new_connections_but_not_open_ones() {
    let (authority, leaving, staying) = (Authority::new("one"), Authority::new("leaving"), Authority::new("staying"));
    let files = Files::new(&authority.issue("server"));
    files.put_authorities(&[&leaving, &staying]);
    let server = server(&files.mutual_flags());
    let addr = addr(&server);
    let (gone, stays) = (leaving.issue("client"), staying.issue("client"));
    let client = TlsClient::new(addr, &[&authority], Some(&gone));
    within(client.ask()).await.unwrap();
    let mut open = calls(addr, &authority, Some(&gone));
    let lease = open.acquire_lease(acquire_request("a", Duration::from_secs(60))).await;

    files.put_authorities(&[&staying]);
    // This client has a session to resume, if the server allowed it.
    until(async || client.ask().await.is_err()).await;
    assert!(within(TlsClient::new(addr, &[&authority], Some(&gone)).ask()).await.is_err());
    assert_eq!(open.release_lease(&lease).await, LeaseEnd::Released);
    within(TlsClient::new(addr, &[&authority], Some(&stays)).ask()).await.unwrap();
}

#[tokio::test]
async fn a_client_does_not_resume_a_session_of_an_older_configuration() {
    let authority = Authority::new("one");
    let files = Files::new(&authority.issue("server"));
    let server = server(&files.flags());
    let client = TlsClient::new(addr(&server), &[&authority], None);
    within(client.ask()).await.unwrap();
    assert!(within(client.ask()).await.unwrap().resumed);
    let renewed = authority.issue("server");
    files.put(&renewed);
    let newcomer = TlsClient::new(addr(&server), &[&authority], None);
    until(async || newcomer.ask().await.is_ok_and(|seen| seen.cert == renewed.der)).await;
    let seen = within(client.ask()).await.unwrap();
    assert!(!seen.resumed);
    assert_eq!(seen.cert, renewed.der);
}

/// An authority whose clock is ahead issues certificates that the server must not use yet.
#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_used_as_soon_as_it_is() {
    let authority = Authority::new("one");
    let files = Files::new(&authority.issue("server"));
    let server = server(&[files.flags(), WITH_ADMIN.map(str::to_owned).to_vec()].concat());
    // The files are read every 5 s, so they are refused at least once.
    let next = authority.issue_valid("server", Valid::After(Duration::from_secs(8)));
    files.put(&next);
    becomes(&server, "fencepost_tls_reloads_total{outcome=\"failed\"}", 1.0).await;
    let client = TlsClient::new(addr(&server), &[&authority], None);
    until(async || client.ask().await.is_ok_and(|seen| seen.cert == next.der)).await;
    becomes(&server, "fencepost_tls_reloads_total{outcome=\"ok\"}", 1.0).await;
    let told = server.log().matches("cannot use the new TLS files").count();
    assert_eq!(told, 1, "{}", server.log());
}

//! TLS of the server.

use crate::{
    certificates::Authority,
    support::{Lock, acquire_request, within},
    tls_client::{TlsClient, calls},
    tls_server::{Files, addr, server},
};
use std::time::Duration;
use tokio_rustls::rustls::{
    ProtocolVersion,
    version::{TLS12, TLS13},
};

#[tokio::test]
async fn it_serves_tls_1_2_and_1_3() {
    let authority = Authority::new("one");
    let identity = authority.issue("server");
    let server = server(&Files::new(&identity).flags());
    for (offered, version) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let client = TlsClient::with_versions(addr(&server), &[&authority], None, &[offered]);
        let seen = within(client.ask()).await.unwrap();
        assert_eq!((seen.version, seen.resumed), (version, false));
        assert_eq!(seen.cert, identity.der);
        // Without client certificates a client may resume, which saves it the handshake.
        assert!(within(client.ask()).await.unwrap().resumed, "{version:?}");
    }
    let mut calls = calls(addr(&server), &authority, None);
    let lease = calls.acquire_lease(acquire_request("a", Duration::from_secs(30))).await;
    calls.release_lease(&lease).await;
}

#[tokio::test]
async fn the_log_names_the_peer_of_a_call_over_tls() {
    let authority = Authority::new("one");
    let files = Files::new(&authority.issue("server"));
    let flags = [files.flags(), vec!["--log-level".to_owned(), "debug".to_owned()]].concat();
    let server = server(&flags);
    calls(addr(&server), &authority, None).lock_info("a").await;
    crate::support::until(async || server.log().contains("\"peer\":\"127.0.0.1:")).await;
}

#[tokio::test]
async fn clients_that_cannot_speak_http2_or_do_not_trust_it_are_logged() {
    let authority = Authority::new("one");
    let server = server(&Files::new(&authority.issue("server")).flags());
    let http1 = TlsClient::new(addr(&server), &[&authority], None).offering(&["http/1.1"]);
    assert!(within(http1.ask()).await.unwrap_err().to_string().contains("NoApplicationProtocol"));
    let stranger = TlsClient::new(addr(&server), &[&Authority::new("other")], None);
    assert!(within(stranger.ask()).await.unwrap_err().to_string().contains("UnknownIssuer"));
    crate::support::until(async || server.log().contains("the client does not trust the server's certificate")).await;
    // A client that names no protocol still has to speak HTTP/2.
    let silent = TlsClient::new(addr(&server), &[&authority], None).offering(&[]);
    within(silent.ask()).await.unwrap();
}

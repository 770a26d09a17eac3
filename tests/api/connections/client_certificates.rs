//! With `--tls-client-ca`, only clients with a certificate of such an authority come in.

use crate::{
    certificates::{Authority, Valid, self_signed},
    support::{Lock, acquire_request, until, within},
    tls_client::{TlsClient, calls},
    tls_server::{Files, addr, server},
};
use std::time::Duration;
use tokio_rustls::rustls::{
    ALL_VERSIONS,
    version::{TLS12, TLS13},
};

#[tokio::test]
async fn a_client_needs_a_valid_certificate_of_the_authority() {
    let (authority, clients, other) = (Authority::new("one"), Authority::new("clients"), Authority::new("other"));
    let files = Files::new(&authority.issue("server"));
    files.put_authorities(&[&clients]);
    let server = server(&files.mutual_flags());
    let addr = addr(&server);
    let good = clients.issue("client");
    for version in [&TLS12, &TLS13] {
        within(TlsClient::with_versions(addr, &[&authority], Some(&good), &[version]).ask()).await.unwrap();
    }
    let mut service = calls(addr, &authority, Some(&good));
    service.acquire_lease(acquire_request("a", Duration::from_secs(30))).await;
    let cases = [
        (None, "the client needs a certificate"),
        (Some(other.issue("client")), "no authority of tls_client_ca has signed the client's certificate"),
        (Some(self_signed("client")), "no authority of tls_client_ca has signed the client's certificate"),
        (Some(clients.issue_valid("client", Valid::Formerly)), "renew the client's certificate"),
        (Some(clients.issue_valid("client", Valid::Later)), "invalid peer certificate"),
    ];
    for (identity, logged) in &cases {
        for version in ALL_VERSIONS {
            let before = server.log().matches(logged).count();
            let client = TlsClient::with_versions(addr, &[&authority], identity.as_ref(), &[version]);
            let refused = within(client.ask()).await;
            assert!(refused.is_err(), "{version:?} {logged}: {refused:?}");
            until(async || server.log().matches(logged).count() > before).await;
        }
    }
    service.lock_info("a").await;
}

#[tokio::test]
async fn each_connection_shows_its_certificate_anew() {
    let authority = Authority::new("one");
    let files = Files::new(&authority.issue("server"));
    files.put_authorities(&[&authority]);
    let server = server(&files.mutual_flags());
    for version in ALL_VERSIONS {
        let identity = authority.issue("client");
        let client = TlsClient::with_versions(addr(&server), &[&authority], Some(&identity), &[version]);
        for _ in 0..2 {
            assert!(!within(client.ask()).await.unwrap().resumed, "{version:?}");
        }
    }
}

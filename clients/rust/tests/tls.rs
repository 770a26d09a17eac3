//! TLS with servers: trust, names, client certificates, rotation, and what the errors say.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

#[path = "../../../tests/support/authority.rs"]
mod authority;
#[path = "../../../tests/support/certificates.rs"]
mod certificates;
mod fake;
mod front;

use authority::{Authority, Files};
use certificates::Valid;
use fake::Fake;
use fencepost_client::{
    AcquireError, CallError, Client, ClientBuilder, Tls, TlsFailure,
    raw::{self, v1},
};
use front::{Front, Settings};
use std::fs;
use std::time::Duration;

const RETRY_FOR: Duration = Duration::from_millis(500);
/// Far longer than the bounds of the client, even on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

fn builder(address: &str, tls: Tls) -> ClientBuilder {
    Client::builder().server(address).tls(tls).retry_for(RETRY_FOR)
}

fn trusting(authority: &Authority) -> Tls {
    Tls::new().ca_file(authority.file())
}

fn with_files(tls: Tls, files: &Files) -> Tls {
    tls.identity_files(&files.certificate, &files.key)
}

fn drain() -> v1::DrainRequest {
    v1::DrainRequest {}
}

/// The errors of a client's calls, unary and on a session.
async fn errors_of(address: &str, tls: &Tls) -> Vec<CallError> {
    let calls = async {
        let client = || builder(address, tls.clone()).build().unwrap();
        let get = v1::GetRequest { lock_name: "x".to_owned() };
        let got = client().calls().get(get).await.unwrap_err();
        let drained = client().calls().drain(drain()).await.unwrap_err();
        let acquired = match client().acquire("x").await.unwrap_err() {
            AcquireError::Unavailable { source } | AcquireError::OutcomeUnknown { source } => source,
            other => panic!("{other:?}"),
        };
        let connected = raw::connect(&address.parse().unwrap(), tls).await;
        // A client certificate is checked after the connection has been established.
        [got, drained, acquired].into_iter().chain(connected.err()).collect()
    };
    tokio::time::timeout(BOUND, calls).await.expect("errors in time")
}

/// Checks that calls fail with this TLS failure, and that their errors say so.
async fn fails(address: &str, tls: &Tls, failure: &TlsFailure, says: &str) {
    for error in errors_of(address, tls).await {
        assert_eq!(error.tls_failure(), Some(failure), "{error:?}");
        assert_eq!(error.to_string(), format!("no server could be reached: {address}: {failure}"));
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.is_unreachable() && !error.is_outcome_unknown() && error.not_grpc().is_none(), "{error:?}");
    }
}

async fn works(address: &str, tls: Tls) {
    let client = builder(address, tls.clone()).build().unwrap();
    let lock = client.acquire("x").await.unwrap();
    assert!(lock.is_valid());
    lock.release().await.unwrap();
    // A unary call, which the fake does not implement.
    let error = client.calls().drain(drain()).await.unwrap_err();
    assert_eq!(error.code(), fencepost_client::Code::Unimplemented, "{error:?}");
    raw::connect(&address.parse().unwrap(), &tls).await.unwrap();
}

#[tokio::test]
async fn locks_work_over_tls() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    for settings in [Settings::default(), Settings { only_tls12: true, ..Settings::default() }] {
        let front = Front::start(&fake.url, &authority.server(), &settings).await;
        works(&front.url(), trusting(&authority)).await;
        works(&front.url().replace("127.0.0.1", "localhost"), trusting(&authority)).await;
    }
    let other = authority.issue("named", &["locks.example"], Valid::Now);
    let front = Front::start(&fake.url, &other, &Settings::default()).await;
    works(&front.url(), trusting(&authority).server_name("locks.example")).await;
    let installed = rustls::crypto::CryptoProvider::get_default();
    assert!(installed.is_none(), "the library neither needs nor installs the provider of the process");
}

#[tokio::test]
async fn several_authorities_are_trusted() {
    let (one, two, fake) = (Authority::new("one"), Authority::new("two"), Fake::start().await);
    for authority in [&one, &two] {
        let front = Front::start(&fake.url, &authority.server(), &Settings::default()).await;
        works(&front.url(), trusting(&one).ca_file(two.file())).await;
    }
}

#[tokio::test]
async fn a_certificate_that_cannot_be_trusted_is_refused() {
    let (authority, other, fake) = (Authority::new("one"), Authority::new("one"), Fake::start().await);
    let expired = authority.issue("expired", &["127.0.0.1"], Valid::Formerly);
    let early = authority.issue("early", &["127.0.0.1"], Valid::Later);
    let named = authority.issue("named", &["locks.example", "10.0.0.1"], Valid::Now);
    let names = vec!["locks.example".to_owned(), "10.0.0.1".to_owned()];
    for (files, failure, says) in [
        (other.server(), TlsFailure::Untrusted, "not trusted"),
        (authority.self_signed(), TlsFailure::Untrusted, "self-signed"),
        (expired, TlsFailure::Expired, "expired"),
        (early, TlsFailure::NotYetValid, "not valid yet"),
        (named, TlsFailure::WrongName { names }, "only for locks.example, 10.0.0.1"),
    ] {
        let front = Front::start(&fake.url, &files, &Settings::default()).await;
        fails(&front.url(), &trusting(&authority), &failure, says).await;
    }
    // The certificate of an authority is none of a server, even if it is trusted.
    let front = Front::start(&fake.url, &authority.own(), &Settings::default()).await;
    for error in errors_of(&front.url(), &trusting(&authority)).await {
        assert!(error.to_string().contains("the certificate of an authority"), "{error:?}");
    }
}

#[tokio::test]
async fn a_self_signed_certificate_can_be_its_own_authority() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    let files = authority.self_signed();
    let front = Front::start(&fake.url, &files, &Settings::default()).await;
    works(&front.url(), Tls::new().ca_file(&files.certificate)).await;
}

#[tokio::test]
async fn a_port_without_tls_is_named() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    let address = fake.url.replace("http:", "https:");
    fails(&address, &trusting(&authority), &TlsFailure::NotTls, "does not speak TLS").await;
}

#[tokio::test]
async fn a_port_with_tls_is_named() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    let front = Front::start(&fake.url, &authority.server(), &Settings::default()).await;
    let address = front.url().replace("https://", "");
    for error in errors_of(&address, &Tls::new()).await {
        assert!(error.to_string().contains("does not speak gRPC without TLS"), "{error:?}");
        assert!(error.to_string().contains("write https://"), "{error:?}");
    }
}

#[tokio::test]
async fn a_port_with_tls_and_another_protocol_is_not_grpc() {
    let authority = Authority::new("one");
    let front = Front::speaking(b"HTTP/1.1 400 Bad Request\r\n\r\n", &authority.server()).await;
    for error in errors_of(&front.url(), &trusting(&authority)).await {
        assert!(error.not_grpc().is_some_and(|why| why.contains("HTTP/1.1 400 Bad Request")), "{error:?}");
    }
}

#[tokio::test]
async fn a_silent_handshake_ends() {
    let (authority, listener) = (Authority::new("one"), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let address = format!("https://{}", listener.local_addr().unwrap());
    for error in errors_of(&address, &trusting(&authority)).await {
        let text = error.to_string();
        assert!(
            text.contains("accepted the connection and sent nothing") || text.contains("no answer within"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn client_certificates_are_shown() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    let missing = TlsFailure::ClientCertificateMissing;
    for only_tls12 in [false, true] {
        let settings = Settings { clients_of: Some(authority.file()), only_tls12 };
        let front = Front::start(&fake.url, &authority.server(), &settings).await;
        works(&front.url(), with_files(trusting(&authority), &authority.client())).await;
        fails(&front.url(), &trusting(&authority), &missing, "asks for a client certificate, and none").await;
    }
}

#[tokio::test]
async fn a_refused_client_certificate_is_named() {
    let (authority, other, fake) = (Authority::new("one"), Authority::new("two"), Fake::start().await);
    let expired = authority.issue("expired", &[], Valid::Formerly);
    for only_tls12 in [false, true] {
        let settings = Settings { clients_of: Some(authority.file()), only_tls12 };
        let front = Front::start(&fake.url, &authority.server(), &settings).await;
        for (files, alert) in [(other.client(), "UnknownCA"), (expired.clone(), "CertificateExpired")] {
            let failure = TlsFailure::ClientCertificateRefused(Some(alert.to_owned()));
            let tls = with_files(trusting(&authority), &files);
            fails(&front.url(), &tls, &failure, "refused the client certificate").await;
        }
    }
}

/// A server may close the connection so fast that its alert is lost.
#[tokio::test]
async fn a_server_that_hangs_up_after_the_handshake_wanted_a_certificate() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    let settings = Settings { clients_of: Some(authority.file()), ..Settings::default() };
    let front = Front::without_alerts(&fake.url, &authority.server(), &settings).await;
    for error in errors_of(&front.url(), &trusting(&authority)).await {
        assert_eq!(error.tls_failure(), Some(&TlsFailure::ClientCertificateMissing), "{error:?}");
    }
}

#[tokio::test]
async fn files_are_read_anew_for_each_connection() {
    let (one, two, fake) = (Authority::new("one"), Authority::new("two"), Fake::start().await);
    let front = Front::start(&fake.url, &one.server(), &Settings::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let copy = |files: &Files, ca: &Authority| {
        fs::copy(ca.file(), folder.path().join("ca.pem")).unwrap();
        fs::copy(&files.certificate, folder.path().join("me.pem")).unwrap();
        fs::copy(&files.key, folder.path().join("me.key")).unwrap();
    };
    copy(&one.client(), &one);
    let tls = Tls::new().ca_file(folder.path().join("ca.pem"));
    let tls = tls.identity_files(folder.path().join("me.pem"), folder.path().join("me.key"));
    let client = builder(&front.url(), tls).build().unwrap();
    let held = client.acquire("held").await.unwrap();
    // New authorities on both sides. The open connection stays, and a new one needs the new files.
    front.set(&two.server(), &Settings { clients_of: Some(two.file()), ..Settings::default() });
    assert!(client.acquire("other").await.unwrap().is_valid(), "over the open connection");
    copy(&two.client(), &two);
    front.close_all();
    assert!(client.acquire("another").await.unwrap().is_valid());
    assert!(held.is_valid(), "the session moved to the new connection");
    // A file that cannot be used later is a failure of TLS.
    fs::write(folder.path().join("ca.pem"), "nothing").unwrap();
    front.close_all();
    let got = client.calls().get(v1::GetRequest::default()).await.unwrap_err();
    assert!(matches!(got.tls_failure(), Some(TlsFailure::Files(why)) if why.contains("ca.pem")), "{got:?}");
}

/// The test would not end before the wait.
#[tokio::test]
async fn a_wait_ends_at_once_if_certificates_do_not_fit() {
    let (authority, other, fake) = (Authority::new("one"), Authority::new("two"), Fake::start().await);
    let own = Front::start(&fake.url, &authority.self_signed(), &Settings::default()).await;
    let strict = Settings { clients_of: Some(other.file()), ..Settings::default() };
    let strict = Front::start(&fake.url, &authority.server(), &strict).await;
    let hour = Duration::from_secs(60 * 60);
    for servers in [vec![&own], vec![&strict], vec![&own, &strict]] {
        let builder = servers.iter().fold(Client::builder(), |builder, front| builder.server(front.url()));
        let client = builder.tls(trusting(&authority)).retry_for(hour).build().unwrap();
        let waiting = client.acquire("x").wait(hour).into_future();
        let error = tokio::time::timeout(BOUND, waiting).await.expect("an error at once").unwrap_err();
        let AcquireError::Unavailable { source } = error else { panic!("{error:?}") };
        assert!(source.tls_failure().is_some(), "{source:?}");
    }
}

#[tokio::test]
async fn a_working_server_hides_one_that_cannot_be_trusted() {
    let (authority, fake) = (Authority::new("one"), Fake::start().await);
    let bad = Front::start(&fake.url, &authority.self_signed(), &Settings::default()).await;
    let good = Front::start(&fake.url, &authority.server(), &Settings::default()).await;
    let client = Client::builder().server(bad.url()).server(good.url()).tls(trusting(&authority)).build().unwrap();
    assert!(client.acquire("x").await.unwrap().is_valid());
}

#[tokio::test]
async fn unusable_settings_are_reported_at_once() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.pem");
    fs::write(&text, "no certificate").unwrap();
    let (mine, others) = (authority.client(), other.client());
    let (missing, https) = (folder.path().join("missing.pem"), "https://localhost:1");
    for (tls, says) in [
        (Tls::new().ca_file(&missing), "missing.pem: No such file"),
        (Tls::new().ca_file(&text), "text.pem: it contains no certificate in PEM format"),
        (Tls::new().ca_file(&mine.key), "client.key: it contains no certificate in PEM format"),
        (trusting(&authority).identity_files(&mine.certificate, &missing), "missing.pem: No such file"),
        (trusting(&authority).identity_files(&mine.certificate, &text), "text.pem: it contains no private key"),
        (
            trusting(&authority).identity_files(&mine.certificate, &others.key),
            "it is not the key of the certificate in",
        ),
        (trusting(&authority).server_name("not a name"), "neither a host name nor an IP address"),
    ] {
        let error = builder(https, tls).build().unwrap_err().to_string();
        assert!(error.contains(says), "{says:?} is not in {error:?}");
    }
    // Secrets are not sent in plain text by mistake. A Unix socket needs no TLS.
    let error = builder("localhost:1", trusting(&authority)).build().unwrap_err().to_string();
    assert!(error.contains("write https://localhost:1"), "{error}");
    assert!(builder("unix:/nowhere", trusting(&authority)).build().is_ok());
}

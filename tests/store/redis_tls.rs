//! A server that connects to Redis over TLS, with private certificate authorities and client certificates.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/authority.rs"]
mod authority;
#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/server.rs"]
mod support;

use authority::{Authority, Files};
use binary::{Ended, Process, Server, fencepost};
use certificates::Valid;
use fencepost_proto::v1::{GetRequest, lock_service_client::LockServiceClient};
use redis_server::Redis;
use std::{fs, path::Path, time::Duration};
use support::{Lock, acquire_request, channel, until};
use tonic::{Code, transport::Channel};

const TTL: Duration = Duration::from_secs(30);

/// As in the documents.
const RIGHTS: &str = "+@scripting +@pubsub +@read +@write +@connection +info +time ~{fp}:* &{fp}:to:*";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A Redis with this certificate, and the URL of its TLS port. It asks for client certificates if `clients` is "yes",
/// and trusts those of the authority in `ca`.
fn redis(files: &Files, ca: &Path, clients: &str) -> (Redis, String) {
    let port = Redis::free_port().to_string();
    let (cert, key) = (text(&files.certificate), text(&files.key));
    let args = ["--tls-port", &port, "--tls-auth-clients", clients, "--tls-cert-file", cert, "--tls-key-file", key];
    let redis = Redis::start(&[&args[..], &["--tls-ca-cert-file", text(ca)]].concat());
    (redis, format!("rediss://127.0.0.1:{port}"))
}

/// The flags for this authority and this client certificate.
fn flags<'a>(ca: &'a Path, client: Option<&'a Files>) -> Vec<&'a str> {
    let identity = client.map(|files| ["--store-cert", text(&files.certificate), "--store-key", text(&files.key)]);
    ["--store-ca", text(ca)].into_iter().chain(identity.into_iter().flatten()).collect()
}

fn server(url: &str, flags: &[&str]) -> Server {
    Server::start_with(&[&["--store", url], flags].concat())
}

fn doctor(url: &str, flags: &[&str]) -> Ended {
    Process::start(&mut fencepost(&[&["doctor", "--json", "--store", url], flags].concat())).ended()
}

fn client(server: &Server) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel(server.url.trim_start_matches("http://").parse().unwrap()))
}

/// Waits until the server reaches its Redis.
async fn ready(server: &Server) {
    until(|| async { client(server).acquire(acquire_request("probe", Duration::from_millis(100))).await.is_ok() })
        .await;
}

/// Checks that log, calls and doctor say this.
async fn refused(url: &str, flags: &[&str], says: &[&str]) {
    let server = server(url, flags);
    until(|| async { server.log().contains("redis cannot be used") }).await;
    let refused = async || client(&server).get(GetRequest { lock_name: "a".into() }).await.unwrap_err();
    // In its first seconds it has not heard of a reason.
    until(async || refused().await.message().contains(says[0])).await;
    let call = refused().await;
    assert_eq!(call.code(), Code::Unavailable);
    let examined = doctor(url, flags).expect(69);
    for text in says {
        assert!(call.message().contains(text), "{text:?} is not in {call:?}");
        assert!(server.log().contains(text), "{text:?} is not in {}", server.log());
        assert!(examined.err.contains(text), "{text:?} is not in {examined:?}");
    }
}

#[tokio::test]
async fn servers_lock_through_redis_over_tls() {
    let authority = Authority::new("one");
    let ca = authority.file();
    let (_redis, url) = redis(&authority.server(), &ca, "no");
    // The variable of the machine's root certificates works as well.
    let servers = [
        server(&url, &flags(&ca, None)),
        Server::start_in(&["--store", &url], &[("SSL_CERT_FILE", &ca)]),
        Server::start_in(&["--store", &url], &[("FENCEPOST_STORE_CA", &ca)]),
    ];
    for server in &servers {
        ready(server).await;
    }
    let lease = client(&servers[0]).acquire_lease(acquire_request("a", TTL)).await;
    let current = client(&servers[1]).holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
    client(&servers[1]).release_lease(&lease).await;
    assert!(client(&servers[2]).acquire_lease(acquire_request("a", TTL)).await.fencing_token > lease.fencing_token);
    assert!(doctor(&url, &flags(&ca, None)).json()["findings"].is_array());
}

#[tokio::test]
async fn a_user_with_a_client_certificate_works() {
    let authority = Authority::new("one");
    let (ca, me) = (authority.file(), authority.client());
    let (redis, url) = redis(&authority.server(), &ca, "yes");
    let user: Vec<&str> = ["ACL", "SETUSER", "fp", "reset", "on", ">pw"].into_iter().chain(RIGHTS.split(' ')).collect();
    assert_eq!(redis.command(&user).text().trim(), "OK");
    let url = url.replace("rediss://", "rediss://fp:pw@");
    let server = server(&url, &flags(&ca, Some(&me)));
    ready(&server).await;
    client(&server).acquire_lease(acquire_request("a", TTL)).await;
    assert!(doctor(&url, &flags(&ca, Some(&me))).json()["findings"].is_array());
    let wrong = url.replace(":pw@", ":other@");
    refused(&wrong, &flags(&ca, Some(&me)), &["password"]).await;
}

#[tokio::test]
async fn the_error_for_an_untrusted_authority_names_the_remedy() {
    let (authority, same_name, other) = (Authority::new("one"), Authority::new("one"), Authority::new("two"));
    let (_redis, url) = redis(&authority.server(), &authority.file(), "no");
    for untrusted in [same_name, other] {
        refused(&url, &flags(&untrusted.file(), None), &["not trusted", "--store-ca", "SSL_CERT_FILE"]).await;
    }
    let (_redis, url) = redis(&authority.self_signed(), &authority.file(), "no");
    refused(&url, &flags(&authority.file(), None), &["not trusted", "self-signed", "--store-ca"]).await;
}

#[tokio::test]
async fn the_error_for_an_unusable_certificate_names_the_reason() {
    let authority = Authority::new("one");
    let ca = authority.file();
    let named = authority.issue("named", &["redis.example"], Valid::Now);
    let (_other, other) = redis(&named, &ca, "no");
    refused(&other, &flags(&ca, None), &["not valid for the host in the URL", "redis.example"]).await;
    let (_early, early) = redis(&authority.issue("early", &["127.0.0.1"], Valid::Later), &ca, "no");
    refused(&early, &flags(&ca, None), &["the certificate of Redis is not valid yet"]).await;
    let (_late, late) = redis(&authority.issue("late", &["127.0.0.1"], Valid::Formerly), &ca, "no");
    refused(&late, &flags(&ca, None), &["the certificate of Redis has expired"]).await;
    let (_own, own) = redis(&authority.own(), &ca, "no");
    refused(&own, &flags(&ca, None), &["the certificate of Redis is that of an authority"]).await;
}

#[tokio::test]
async fn the_error_for_a_client_certificate_names_the_remedy() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let ca = authority.file();
    let (_redis, url) = redis(&authority.server(), &ca, "yes");
    refused(&url, &flags(&ca, None), &["asks for a client certificate, and none is given", "--store-cert"]).await;
    let expired = authority.issue("expired", &[], Valid::Formerly);
    for files in [other.client(), expired] {
        refused(&url, &flags(&ca, Some(&files)), &["refused the TLS connection", "--store-cert"]).await;
    }
}

#[tokio::test]
async fn the_error_for_a_port_without_tls_names_the_remedy() {
    let (authority, redis) = (Authority::new("one"), Redis::start(&[]));
    let url = redis.url().replace("redis://", "rediss://");
    refused(&url, &flags(&authority.file(), None), &["does not speak TLS", "redis://"]).await;
}

/// Redis and the server get certificates of another authority. The server is not restarted.
#[tokio::test]
async fn files_are_read_anew_for_each_connection() {
    let (one, two) = (Authority::new("one"), Authority::new("two"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let install = |authority: &Authority| {
        let (redis, me) = (authority.server(), authority.client());
        for (from, name) in [
            (authority.file(), "ca.pem"),
            (authority.file(), "trusted.pem"),
            (redis.certificate, "redis.pem"),
            (redis.key, "redis.key"),
            (me.certificate, "me.pem"),
            (me.key, "me.key"),
        ] {
            fs::copy(from, file(name)).unwrap();
        }
    };
    install(&one);
    let (ca, redis_files) = (file("ca.pem"), Files { certificate: file("redis.pem"), key: file("redis.key") });
    let (trusted, me) = (file("trusted.pem"), Files { certificate: file("me.pem"), key: file("me.key") });
    let (mut redis, url) = redis(&redis_files, &ca, "yes");
    let server = server(&url, &flags(&trusted, Some(&me)));
    ready(&server).await;
    install(&two);
    redis.restart(false);
    ready(&server).await;
    assert!(server.log().matches("connected to redis").count() >= 2, "{}", server.log());
    fs::write(&trusted, "nothing").unwrap();
    redis.restart(false);
    until(|| async { server.log().contains("trusted.pem contains no certificate") }).await;
    install(&two);
    ready(&server).await;
}

#[test]
fn unusable_files_are_problems_of_the_configuration() {
    let (authority, other) = (Authority::new("one"), Authority::new("two"));
    let folder = tempfile::tempdir().unwrap();
    let (missing, noise) = (folder.path().join("missing.pem"), folder.path().join("noise.pem"));
    fs::write(&noise, "noise").unwrap();
    let (me, others) = (authority.client(), other.client());
    let (cert, key) = (text(&me.certificate), text(&me.key));
    let (missing, noise) = (text(&missing), text(&noise));
    for (flags, option, says) in [
        (&["--store-ca", missing][..], "store-ca", "missing.pem\": cannot be read: No such file"),
        (&["--store-ca", noise], "store-ca", "noise.pem\": contains no certificate"),
        (&["--store-cert", missing, "--store-key", key], "store-cert", "missing.pem\": cannot be read"),
        (
            &["--store-cert", cert, "--store-key", noise],
            "store-key",
            "noise.pem\": contains no unencrypted private key",
        ),
        (
            &["--store-cert", cert, "--store-key", text(&others.key)],
            "store-key",
            "does not belong to the certificate in",
        ),
    ] {
        let store = ["--store", "rediss://127.0.0.1:1"];
        let serve = [&["serve", "--listen", "127.0.0.1:0"], &store[..], flags].concat();
        let served = Process::start(&mut fencepost(&serve)).ended().expect(78).says(says);
        assert!(served.err.contains(&option.replace('-', "_")), "{served:?}");
        doctor(store[1], flags).expect(78).says(&format!("--{option} = ")).says(says);
    }
    let ca = authority.file();
    let files = ["--store-ca", text(&ca)];
    for store in ["memory:", "redis://127.0.0.1:1"] {
        let serve = [&["serve", "--store", store], &files[..]].concat();
        Process::start(&mut fencepost(&serve)).ended().expect(78).says("--store-ca").says("needs a store with TLS");
    }
    doctor("redis://127.0.0.1:1", &files).expect(78).says("need a store with TLS");
}

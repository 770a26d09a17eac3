//! A server that connects to Redis over TLS, with a private certificate authority.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../support/binary.rs"]
mod binary;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/server.rs"]
mod support;

use binary::{Server, fencepost};
use fencepost_proto::v1::{GetRequest, lock_service_client::LockServiceClient};
use redis_server::Redis;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use support::{Lock, acquire_request, channel, until};
use tonic::{Code, transport::Channel};

const TTL: Duration = Duration::from_secs(30);

/// A certificate authority, with a certificate for 127.0.0.1.
struct Authority(tempfile::TempDir);

impl Authority {
    fn named(name: &str) -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        fs::write(it.file("extensions"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n").unwrap();
        let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        it.openssl(&format!("req -x509 {new_key} -days 2 -subj /CN={name} -keyout ca.key -out ca.pem"));
        it.openssl(&format!("req -new {new_key} -subj /CN=redis -keyout redis.key -out redis.csr"));
        it.openssl(
            "x509 -req -in redis.csr -CA ca.pem -CAkey ca.key -set_serial 2 -days 2 -extfile extensions -out redis.pem",
        );
        it
    }

    fn openssl(&self, words: &str) {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(self.0.path()).output();
        let output = output.expect("openssl is missing: run .ci/setup, or install the package openssl");
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A Redis with the certificate, and the URL of its TLS port.
    fn redis(&self) -> (Redis, String) {
        let port = Redis::free_port().to_string();
        let text = |name: &str| self.file(name).to_str().unwrap().to_owned();
        let (cert, key, ca) = (text("redis.pem"), text("redis.key"), text("ca.pem"));
        let files = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        let args = [&["--tls-port", &port, "--tls-auth-clients", "no"][..], &files[..]].concat();
        (Redis::start(&args), format!("rediss://127.0.0.1:{port}"))
    }

    fn server(&self, url: &str) -> Server {
        Server::start_in(&["--store", url], &[("SSL_CERT_FILE", &self.file("ca.pem"))])
    }
}

fn client(server: &Server) -> LockServiceClient<Channel> {
    LockServiceClient::new(channel(server.url.trim_start_matches("http://").parse().unwrap()))
}

/// The error of this server's calls, once its log contains `logged`.
async fn refusal(server: &Server, logged: &str) -> String {
    until(|| async { server.log().contains(logged) }).await;
    let refused = client(server).get(GetRequest { lock_name: "a".into() }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    refused.message().to_owned()
}

#[tokio::test]
async fn servers_lock_through_redis_over_tls() {
    let authority = Authority::named("one");
    let (_redis, url) = authority.redis();
    let servers = [authority.server(&url), authority.server(&url)];
    for server in &servers {
        until(|| async { client(server).acquire(acquire_request("probe", Duration::from_millis(100))).await.is_ok() })
            .await;
    }
    let lease = client(&servers[0]).acquire_lease(acquire_request("a", TTL)).await;
    let current = client(&servers[1]).holder("a").await.unwrap();
    assert_eq!(current.fencing_token, lease.fencing_token);
    client(&servers[1]).release_lease(&lease).await;
    assert!(client(&servers[1]).acquire_lease(acquire_request("a", TTL)).await.fencing_token > lease.fencing_token);
    let doctor = |ca: &Path| {
        let mut command = fencepost(&["doctor", "--json", "--store", &url]);
        binary::Process::start(command.env("SSL_CERT_FILE", ca)).ended()
    };
    assert!(doctor(&authority.file("ca.pem")).json()["findings"].is_array());
}

#[tokio::test]
async fn the_error_for_an_untrusted_authority_names_the_remedy() {
    let authority = Authority::named("one");
    let (_redis, url) = authority.redis();
    for name in ["two", "one"] {
        let other = Authority::named(name);
        let server = other.server(&url);
        let why = refusal(&server, "certificate").await;
        assert!(why.contains("not trusted") && why.contains("SSL_CERT_FILE"), "{why}");
    }
}

#[tokio::test]
async fn the_error_for_a_certificate_of_another_host_names_it() {
    let authority = Authority::named("one");
    let (_redis, url) = authority.redis();
    let server = authority.server(&url.replace("127.0.0.1", "localhost"));
    let why = refusal(&server, "certificate").await;
    assert!(why.contains("certificate") && why.contains("localhost"), "{why}");
}

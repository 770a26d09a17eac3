//! The metrics of connections, bounds and TLS.

use crate::{
    binary::Server,
    bounds::{connect_from, started},
    certificates::Authority,
    http1::get,
    support::{until, within},
    tls_client::TlsClient,
    tls_server::{Files, addr, server},
};

/// The flags for an admin port.
pub(crate) const WITH_ADMIN: [&str; 2] = ["--admin-listen", "127.0.0.1:0"];

/// When the certificates of tests expire, 4000-01-01, in Unix time.
const EXPIRY: f64 = 64_060_588_800.0;

/// The value of a sample, with its labels.
pub(crate) fn metric(server: &Server, sample: &str) -> f64 {
    let page = get(&server.admin_address(), "/metrics").body;
    let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {sample} in {page}")).parse().unwrap()
}

/// Waits until the sample has this value.
pub(crate) async fn becomes(server: &Server, sample: &str, value: f64) {
    until(async || metric(server, sample) == value).await;
}

/// Waits until the sample has at least this value. A value that is read once after something else was awaited may not
/// have moved yet.
pub(crate) async fn reaches(server: &Server, sample: &str, value: f64) {
    until(async || metric(server, sample) >= value).await;
}

#[tokio::test]
async fn connections_and_refusals_are_counted() {
    let bounds = ["--connections-max", "3", "--connections-per-peer", "2"];
    let server = Server::start_with(&[&WITH_ADMIN[..], &bounds].concat());
    let to = addr(&server);
    assert_eq!(metric(&server, "fencepost_connections"), 0.0);
    let mut open = Vec::new();
    for from in ["127.0.0.2", "127.0.0.2", "127.0.0.3"] {
        open.push(started(connect_from(from, to).await).await);
        becomes(&server, "fencepost_connections", f64::from(u8::try_from(open.len()).unwrap())).await;
    }
    drop(connect_from("127.0.0.4", to).await);
    becomes(&server, "fencepost_refusals_total{bound=\"connections\"}", 1.0).await;
    open.pop();
    becomes(&server, "fencepost_connections", 2.0).await;
    drop(connect_from("127.0.0.2", to).await);
    becomes(&server, "fencepost_refusals_total{bound=\"connections_per_peer\"}", 1.0).await;
    let silent = connect_from("127.0.0.3", to).await;
    becomes(&server, "fencepost_refusals_total{bound=\"handshake_time\"}", 1.0).await;
    drop((open, silent));
    becomes(&server, "fencepost_connections", 0.0).await;
}

#[tokio::test]
async fn handshakes_and_changes_of_the_tls_files_are_counted() {
    let (authority, stranger) = (Authority::new("one"), Authority::new("stranger"));
    let files = Files::new(&authority.issue("server"));
    let server = server(&[files.flags(), WITH_ADMIN.map(str::to_owned).to_vec()].concat());
    becomes(&server, "fencepost_tls_certificate_expiry_timestamp_seconds", EXPIRY).await;

    within(TlsClient::new(addr(&server), &[&authority], None).ask()).await.unwrap();
    becomes(&server, "fencepost_tls_handshakes_total{outcome=\"ok\"}", 1.0).await;
    assert!(within(TlsClient::new(addr(&server), &[&stranger], None).ask()).await.is_err());
    becomes(&server, "fencepost_tls_handshakes_total{outcome=\"failed\"}", 1.0).await;

    let renewed = authority.issue("server");
    files.write("key.pem", &renewed.key);
    becomes(&server, "fencepost_tls_reloads_total{outcome=\"failed\"}", 1.0).await;
    files.put(&renewed);
    becomes(&server, "fencepost_tls_reloads_total{outcome=\"ok\"}", 1.0).await;
}

#[tokio::test]
async fn a_server_without_tls_has_no_expiry() {
    let server = Server::start_with(&WITH_ADMIN);
    assert_eq!(metric(&server, "fencepost_tls_certificate_expiry_timestamp_seconds"), 0.0);
}

//! The certificate of the server expires while nobody connects.

use crate::{
    binary::Server,
    certificates::{Authority, Valid},
    metrics::{WITH_ADMIN, becomes},
    support::until,
    tls_server::{Files, server},
};
use serde_json::Value;
use std::time::Duration;

/// How often the log says this, at this level.
fn said(server: &Server, level: &str, text: &str) -> usize {
    let log = server.log();
    let lines = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let fits = |line: &Value| line["level"] == level && line["message"].as_str().unwrap().contains(text);
    lines.filter(fits).inspect(|line| assert!(line["certificate_expires"].is_string(), "{line}")).count()
}

const SOON: (&str, &str) = ("WARN", "the certificate of the server expires soon");
const EXPIRED: (&str, &str) = ("ERROR", "the certificate of the server has expired");

#[tokio::test]
async fn the_log_says_once_that_the_certificate_expires_soon_and_that_it_has_expired() {
    let authority = Authority::new("one");
    // Long enough for a busy machine to start the server.
    let files = Files::new(&authority.issue_valid("server", Valid::For(Duration::from_secs(8))));
    let server = server(&[files.flags(), WITH_ADMIN.map(str::to_owned).to_vec()].concat());
    let counts = || (said(&server, SOON.0, SOON.1), said(&server, EXPIRED.0, EXPIRED.1));
    until(async || counts() == (1, 0)).await;
    until(async || counts() == (1, 1)).await;

    // The next certificate is watched anew.
    files.put(&authority.issue_valid("server", Valid::For(Duration::from_secs(24 * 60 * 60))));
    until(async || counts() == (2, 1)).await;
    files.put(&authority.issue("server"));
    becomes(&server, "fencepost_tls_reloads_total{outcome=\"ok\"}", 2.0).await;
    assert_eq!(counts(), (2, 1), "{}", server.log());
}

//! Each operation with each kind of credentials.

use crate::{
    operations::{ALL, DRAINS, Operation, carry_out},
    support::{assert_refused, within},
    world::{Credentials, Files, ISSUER, World, channel, claims, rule, token},
};
use serde_json::json;
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

const ALL_VERBS: [&str; 5] = ["acquire", "read", "check", "force", "operate"];
/// A lock, and the only prefix that the callers may use.
const LOCK: &str = "a/1";

fn rules(mode: &str) -> String {
    let expired = "expires = 2001-01-01T00:00:00Z\n";
    let mut text = format!("mode = \"{mode}\"\n{ISSUER}");
    text += &(token("good", "good") + &token("good", "expired") + expired + &token("other", "other"));
    text + &rule("good", &ALL_VERBS, &["a/"])
        + &rule("k8s:good", &ALL_VERBS, &["a/"])
        + &rule("other", &ALL_VERBS[..4], &["b/", "a/1/", "=a"])
}

/// Credentials that are nobody's, and the reason why.
fn refused_credentials(files: &Files) -> Vec<(&'static str, Credentials, &'static str)> {
    let valid = claims("good", 600);
    let of = |name: &str, value| {
        let mut claims = valid.clone();
        claims[name] = value;
        files.issuer.token("ES256", &claims)
    };
    let confused = files.issuer.signed("HS256", &json!({"alg": "HS256", "kid": "RS256"}), &valid);
    let as_rsa = files.issuer.signed("HS256", &json!({"alg": "RS256", "kid": "RS256"}), &valid);
    let expired = files.issuer.token("RS256", &claims("good", -1));
    let bearer = |token: &str| Credentials::bearer(token);
    vec![
        ("none", Credentials(None), "CREDENTIALS_MISSING"),
        ("wrong", bearer("goo"), "CREDENTIALS_INVALID"),
        ("another scheme", Credentials(Some("Basic Z29vZDpnb29k".to_owned())), "CREDENTIALS_INVALID"),
        ("expired", bearer("expired"), "CREDENTIALS_EXPIRED"),
        ("an expired JWT", bearer(&expired), "CREDENTIALS_EXPIRED"),
        ("another audience", bearer(&of("aud", json!("other"))), "CREDENTIALS_INVALID"),
        ("another issuer", bearer(&of("iss", json!("other"))), "CREDENTIALS_INVALID"),
        ("alg none", bearer(&files.issuer.token("none", &valid)), "CREDENTIALS_INVALID"),
        ("HS256 with the public key", bearer(&confused), "CREDENTIALS_INVALID"),
        ("the same as RS256", bearer(&as_rsa), "CREDENTIALS_INVALID"),
    ]
}

fn all() -> impl Iterator<Item = Operation> {
    ALL.into_iter().chain(DRAINS)
}

#[tokio::test]
async fn nobody_without_credentials_does_anything() {
    let files = Files::new();
    files.rules(&rules("enforce"));
    let world = World::start(&files).await;
    for (what, credentials, reason) in refused_credentials(&files) {
        for operation in all() {
            let metric = || world.metric("fencepost_access_denials_total", "mode=\"enforce\"");
            let before = metric().await;
            let refused = carry_out(&world, &credentials, operation, LOCK).await;
            let status = assert_refused(refused, Code::Unauthenticated, reason);
            assert!(status.get_details_error_info().unwrap().metadata.is_empty(), "{what} {operation:?} {status:?}");
            assert_eq!(metric().await, before + 1.0, "{what} {operation:?}");
        }
    }
    let mut health = HealthClient::new(channel(world.addr));
    within(health.check(HealthCheckRequest::default())).await.unwrap();
}

#[tokio::test]
async fn those_whom_the_rules_permit_do_everything_within_their_prefix() {
    for algorithm in [None, Some("RS256"), Some("ES256"), Some("EdDSA")] {
        let files = Files::new();
        files.rules(&rules("enforce"));
        let token = algorithm.map(|algorithm| files.issuer.token(algorithm, &claims("good", 600)));
        let credentials = Credentials::bearer(token.as_deref().unwrap_or("good"));
        let world = World::start(&files).await;
        for operation in ALL {
            carry_out(&world, &credentials, operation, LOCK).await.unwrap_or_else(|it| panic!("{operation:?} {it:?}"));
        }
        assert_eq!(world.metric("fencepost_access_denials_total", "").await, 0.0);
        carry_out(&world, &credentials, Operation::DrainOnAdminPort, LOCK).await.unwrap();
    }
}

#[tokio::test]
async fn a_rule_ends_at_the_edge_of_its_prefix() {
    let files = Files::new();
    files.rules(&rules("enforce"));
    let world = World::start(&files).await;
    for (credentials, identity, lock) in [
        (Credentials::bearer("other"), "other", LOCK),
        (Credentials::bearer("good"), "good", "a"),
        (Credentials::bearer("good"), "good", "a0"),
        (Credentials::bearer("good"), "good", "A/1"),
        (Credentials::bearer("good"), "good", "b/1"),
        (Credentials::bearer(&files.issuer.token("EdDSA", &claims("good2", 600))), "k8s:good2", LOCK),
    ] {
        for operation in ALL {
            let done = carry_out(&world, &credentials, operation, lock).await;
            if operation.needs_no_rule() {
                done.unwrap();
                continue;
            }
            let status = done.expect_err("no rule permits it");
            assert_eq!(status.code(), Code::PermissionDenied, "{identity} {operation:?} {lock} {status:?}");
            // A stream that may not keep a lease says no more than that.
            let Some(info) = status.get_details_error_info() else {
                assert!(operation.is_on_stream(), "{operation:?}");
                continue;
            };
            assert_eq!((info.reason.as_str(), info.metadata["identity"].as_str()), ("NOT_PERMITTED", identity));
            let is_prefix = [Operation::List, Operation::Watch].contains(&operation);
            assert_eq!(info.metadata[if is_prefix { "prefix" } else { "lock_name" }], lock, "{operation:?}");
        }
    }
    for operation in DRAINS {
        let refused = carry_out(&world, &Credentials::bearer("other"), operation, LOCK).await;
        assert_refused(refused, Code::PermissionDenied, "NOT_PERMITTED");
    }
    // An exact name is a lock, and not the beginning of names.
    let other = Credentials::bearer("other");
    carry_out(&world, &other, Operation::Get, "a").await.unwrap();
    let status =
        assert_refused(carry_out(&world, &other, Operation::List, "a").await, Code::PermissionDenied, "NOT_PERMITTED");
    assert!(status.message().contains("within =a, a/1/, b/"), "{}", status.message());
}

#[tokio::test]
async fn a_file_that_is_observed_denies_nothing_and_counts_the_same() {
    let files = Files::new();
    files.rules(&rules("observe"));
    let world = World::start(&files).await;
    let mut cases = refused_credentials(&files);
    cases.push(("another prefix", Credentials::bearer("other"), "NOT_PERMITTED"));
    for (what, credentials, reason) in cases {
        let label = format!("reason=\"{}\",mode=\"observe\"", reason.to_lowercase());
        for operation in ALL.into_iter().filter(|it| reason != "NOT_PERMITTED" || it.has_lock()) {
            let before = world.metric("fencepost_access_denials_total", &label).await;
            let done: Result<(), Status> = carry_out(&world, &credentials, operation, LOCK).await;
            done.unwrap_or_else(|status| panic!("{what} {operation:?} {status:?}"));
            let denials = world.metric("fencepost_access_denials_total", &label).await - before;
            let expected = 1.0 + f64::from(u8::from(operation.is_on_stream() && reason != "NOT_PERMITTED"));
            assert_eq!(denials, expected, "{what} {operation:?}");
        }
    }
    assert_eq!(world.metric("fencepost_access_denials_total", "mode=\"enforce\"").await, 0.0);
}

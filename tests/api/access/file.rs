//! The access file at the start of a server, and its changes.

use crate::{
    operations::{Operation, carry_out},
    support::{assert_refused, until},
    world::{Credentials, Files, ISSUER, World, claims, rule, token},
};
use fencepost::testing::{
    config::{Config, Environment},
    server::bind,
};
use tonic::Code;

const ENFORCE: &str = "mode = \"enforce\"\n";

#[tokio::test]
async fn a_server_does_not_start_with_a_file_that_it_cannot_use() {
    let files = Files::new();
    let mut config = Config::load(Vec::new(), &Environment::new(), |_| Ok(())).unwrap();
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.access = Some(files.path("access.toml"));
    let refusal = async || bind(&config).await.map(|_| ()).unwrap_err().to_string();
    assert!(refusal().await.contains("cannot be read"), "{}", refusal().await);
    files.rules(&(ENFORCE.to_owned() + "[[rule]]\nwho = [\"a\"]\nmay = [\"write\"]\n"));
    let said = refusal().await;
    assert!(said.contains("access.toml") && said.contains("line 4, column 8: unknown variant `write`"), "{said}");
}

#[tokio::test]
async fn a_change_counts_within_seconds_and_a_mistake_keeps_the_old_rules() {
    let files = Files::new();
    let rules = rule("*", &["acquire"], &["a/"]);
    files.rules(&(ENFORCE.to_owned() + &token("one", "1") + &rules));
    let world = World::start(&files).await;
    let (one, two) = (Credentials::bearer("1"), Credentials::bearer("2"));
    let asked = async |credentials: &Credentials| carry_out(&world, credentials, Operation::Acquire, "a/1").await;
    asked(&one).await.unwrap();
    assert_refused(asked(&two).await, Code::Unauthenticated, "CREDENTIALS_INVALID");

    files.rules("mode = 7");
    until(async || world.metric("fencepost_access_reloads_total", "failed").await == 1.0).await;
    asked(&one).await.unwrap();

    files.rules(&(ENFORCE.to_owned() + &token("two", "2") + &rules));
    until(async || world.metric("fencepost_access_reloads_total", "ok").await == 1.0).await;
    asked(&two).await.unwrap();
    assert_refused(asked(&one).await, Code::Unauthenticated, "CREDENTIALS_INVALID");

    // New keys of an issuer are a change as well.
    files.rules(&(ENFORCE.to_owned() + ISSUER + &rules));
    until(async || world.metric("fencepost_access_reloads_total", "ok").await == 2.0).await;
    let signed = Credentials::bearer(&files.issuer.token("ES256", &claims("x", 600)));
    asked(&signed).await.unwrap();
    files.write("jwks.json", &crate::issuer::Issuer::new().key_set());
    until(async || world.metric("fencepost_access_reloads_total", "ok").await == 3.0).await;
    assert_refused(asked(&signed).await, Code::Unauthenticated, "CREDENTIALS_INVALID");
    assert_eq!(world.metric("fencepost_access_reloads_total", "failed").await, 1.0);
}

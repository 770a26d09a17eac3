//! Conversions of a lock that is held.

use crate::{
    calls::{Lock, acquire_request, until, waiting_request, within},
    world::{Cell, LONG},
};
use fencepost_proto::v1::{AcquireRequest, LockMode};
use serde_json::{Value, json};
use std::fs;

/// A writer becomes a reader and lets in the next one; then it becomes a writer again when it is alone, with a new
/// token.
pub(crate) async fn converted(cell: Cell) {
    let (client, name, locks) = (cell.client().await, cell.name("lock"), cell.world.locks());
    let convert = async |mode: &str| client.call("convert", json!({ "lock": name, "mode": mode })).await;
    let answer = client.ask_acquire(&name, &name, LONG, LONG).await.answer().await.expect("it is free");
    let token = answer["token"].as_u64().expect("token");
    assert_eq!(answer["mode"], "exclusive", "{answer}");

    let shared = AcquireRequest { mode: LockMode::Shared.into(), ..waiting_request(&name, LONG, LONG) };
    let reader = tokio::spawn(async move { within_lease(shared, locks).await });
    until(async || cell.world.locks().lock_info(&name).await.waiters == 1).await;
    let is = |converted: bool, token: u64, mode: &str| json!([converted, token, mode]);
    let told = |answer: Value| json!([answer["converted"], answer["token"], answer["mode"]]);
    assert_eq!(told(convert("shared").await.expect("it is held")), is(true, token, "shared"));
    let reader = within(reader).await.unwrap();
    assert_eq!(told(convert("exclusive").await.expect("it is held")), is(false, token, "shared"));

    let mut locks = cell.world.locks();
    locks.release_lease(&reader).await;
    let alone = convert("exclusive").await.expect("it is held");
    let newest = alone["token"].as_u64().expect("token");
    assert!(newest > reader.fencing_token && reader.fencing_token > token, "{alone}");
    assert_eq!((&alone["converted"], &alone["mode"]), (&json!(true), &json!("exclusive")));
    let file = cell.file("tokens");
    client.ask_write(&name, &file).await.answer().await.expect("it is valid");
    assert_eq!(fs::read_to_string(file).unwrap().trim(), newest.to_string(), "the work uses the new token");
    let other = locks.acquire_response(acquire_request(&name, LONG)).await;
    assert_eq!(other.holders[0].fencing_token, newest);

    assert_eq!(client.release(&name).await, "released");
    let refused = convert("shared").await.expect_err("it is released");
    assert!(refused["error"] == "lost" || refused["error"] == "bad_request", "{refused}");
}

async fn within_lease(request: AcquireRequest, mut locks: impl Lock) -> fencepost_proto::v1::Lease {
    locks.acquire_lease(request).await
}

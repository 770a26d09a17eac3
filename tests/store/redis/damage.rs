//! Keys of a lock that others changed: the log reports them, and other locks work.

use crate::{
    log,
    redis_server::Redis,
    server_on,
    support::{Lock, acquire_request, assert_refused, until, waiting_request, within},
};
use fencepost::{domain::name::LockName, store::redis::keys};
use fencepost_proto::v1::acquire_response::Outcome;
use std::time::Duration;
use tonic::Code;

/// Expires while others wait, so that only a poll serves them.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(600);

fn bucket(name: &str) -> u16 {
    keys::bucket(&LockName::new(name.to_owned()).unwrap())
}

#[tokio::test]
async fn a_foreign_key_among_the_keys_of_a_lock_is_logged_once_and_stops_no_other_lock() {
    log::keep();
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let name = "damage/foreign";
    let neighbour = (0..).map(|number| format!("n/{number}")).find(|other| bucket(other) == bucket(name)).unwrap();
    let wait_for = |name: &str| {
        let (mut client, request) = (server.client(), waiting_request(name, SHORT, LONG));
        tokio::spawn(async move { client.acquire_response(request).await })
    };
    server.client().acquire_lease(acquire_request(name, SHORT)).await;
    let waiter = wait_for(name);
    until(|| async { server.client().lock_info(name).await.waiters == 1 }).await;
    let foreign = format!("{}e:{name}", keys::base(bucket(name)));
    redis.command(&["SET", &foreign, "foreign"]);
    for _ in 0..3 {
        server.client().acquire_lease(acquire_request(&neighbour, SHORT)).await;
        assert_eq!(within(wait_for(&neighbour)).await.unwrap().outcome(), Outcome::Acquired);
        until(|| async { server.client().lock_info(&neighbour).await.holders.is_empty() }).await;
    }
    let logged = log::lines_with(name);
    assert!(logged.len() == 1 && logged[0].contains("WARN") && logged[0].contains(&foreign), "{logged:?}");
    assert!(!waiter.is_finished());
    redis.command(&["DEL", &foreign]);
    assert_eq!(within(waiter).await.unwrap().outcome(), Outcome::Acquired);
}

#[tokio::test]
async fn the_waiters_of_a_lock_whose_key_was_deleted_must_retry() {
    log::keep();
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let name = "damage/deleted";
    server.client().acquire_lease(acquire_request(name, LONG)).await;
    let request = waiting_request(name, LONG, LONG);
    let (mut client, sent) = (server.client(), request.clone());
    let waiter = tokio::spawn(async move { client.acquire(sent).await });
    until(|| async { server.client().lock_info(name).await.waiters == 1 }).await;
    redis.command(&["DEL", &format!("{}l:{name}", keys::base(bucket(name)))]);
    assert_refused(within(waiter).await.unwrap(), Code::Unavailable, "PLACE_LOST");
    assert_eq!(server.client().acquire_response(request).await.outcome(), Outcome::Acquired);
    let logged = log::lines_with(name);
    assert!(logged.len() == 1 && logged[0].contains("WARN"), "{logged:?}");
}

#[tokio::test]
async fn an_unreachable_redis_is_not_logged_as_damage() {
    log::keep();
    let mut redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let name = "damage/away";
    server.client().acquire_lease(acquire_request(name, LONG)).await;
    let (mut client, sent) = (server.client(), waiting_request(name, LONG, LONG));
    let waiter = tokio::spawn(async move { client.acquire(sent).await });
    until(|| async { server.client().lock_info(name).await.waiters == 1 }).await;
    redis.kill();
    // At least two polls.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(log::lines_with(name).is_empty() && log::lines_with(&keys::base(bucket(name))).is_empty());
    waiter.abort();
}

//! The clock of Redis is set while it runs.

use crate::{
    clock::Clock,
    redis_server::Redis,
    server_on,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, read, until, waiting_request, within},
    tokens::RisingTokens,
};
use fencepost_proto::v1::{acquire_response::Outcome, keep_alive_response::Message as ServerMessage};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(50);
const HOUR: i64 = 3_600;

#[tokio::test]
async fn tokens_rise_if_the_clock_is_set_back_or_ahead() {
    let clock = Clock::new();
    let redis = Redis::start_in(&[], &[], &clock.env());
    let server = server_on(&redis).await;
    let mut tokens = RisingTokens::default();
    for ahead in [0, -HOUR, 0, HOUR, -HOUR, HOUR, 0] {
        clock.set(ahead);
        tokens.check(&server, 5).await;
        // A new server knows no token.
        tokens.check(&server_on(&redis).await, 5).await;
    }
    // If Redis loses its data as well, tokens rise above the highest one that the server knows.
    tokens.check(&server, 5).await;
    redis.command(&["FLUSHALL"]);
    clock.set(-HOUR);
    tokens.check(&server, 5).await;
}

#[tokio::test]
async fn after_a_loss_of_data_the_tokens_of_all_locks_start_above_the_highest_token_known() {
    let clock = Clock::new();
    let mut redis = Redis::start_in(&[], &[], &clock.env());
    let server = server_on(&redis).await;
    let seen = server.client().acquire_lease(acquire_request("seen", TTL)).await.fencing_token;
    clock.set(-HOUR);
    redis.restart(false);
    // The first command to the new incarnation.
    let request = acquire_request("other", TTL);
    until(|| async {
        server.client().acquire(request.clone()).await.is_ok_and(|response| {
            let token = response.into_inner().lease.unwrap().fencing_token;
            assert!(token > seen, "{token} after {seen}");
            true
        })
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_steps_back_does_not_prolong_a_lease() {
    let clock = Clock::new();
    let redis = Redis::start_in(&[], &[], &clock.env());
    let server = server_on(&redis).await;
    let ttl = Duration::from_secs(3);
    let kept = server.client().acquire_lease(acquire_request("kept", ttl)).await;
    let mut stream = Stream::open(server.client()).await;
    stream.attach(vec![attachment(1, &kept)]).await;
    assert!(matches!(stream.next_but_beats(true).await, ServerMessage::Attached(_)));
    server.client().acquire_lease(acquire_request("not renewed", ttl)).await;
    clock.set(-HOUR);
    for name in ["kept", "not renewed"] {
        let current = server.client().holder(name).await.unwrap();
        assert!(read(current.expires_in) <= ttl, "{name} has {:?} left", current.expires_in);
    }
    assert!(stream.answer_for(ttl * 2, |_| true).await >= 2, "renewals continue");
    assert_eq!(server.client().holder("kept").await.unwrap().fencing_token, kept.fencing_token);
    // Any command corrects the expiry: at most a TTL is left from then on.
    let next = within(server.client().acquire_response(waiting_request("not renewed", TTL, LONG))).await;
    assert_eq!(next.outcome(), Outcome::Acquired);
}

#[tokio::test]
async fn waiters_are_served_after_a_step_back_and_not_stuck_after_a_step_ahead() {
    let clock = Clock::new();
    let redis = Redis::start_in(&[], &[], &clock.env());
    let server = server_on(&redis).await;
    for ahead in [-HOUR, HOUR] {
        clock.set(0);
        let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
        let mut waiting = server.client();
        let waiter = tokio::spawn(async move { waiting.acquire(waiting_request("a", TTL, LONG)).await });
        until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
        clock.set(ahead);
        let release = fencepost_proto::v1::ReleaseRequest { lock_name: "a".into(), lease_id: lease.lease_id };
        server.client().release(release).await.unwrap();
        match within(waiter).await.unwrap() {
            Ok(response) => {
                let response = response.into_inner();
                assert_eq!(response.outcome(), Outcome::Acquired);
                server.client().release_lease(&response.lease.unwrap()).await;
            }
            // An hour without a heartbeat of the server: the queue position is gone, and the client must retry.
            Err(status) => assert_eq!((status.code(), ahead), (tonic::Code::Unavailable, HOUR), "{status:?}"),
        }
        let lease = server.client().acquire_lease(acquire_request("a", TTL)).await;
        server.client().release_lease(&lease).await;
    }
}

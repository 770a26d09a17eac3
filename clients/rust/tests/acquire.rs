//! Acquiring a lock: outcomes, retries, and cleanup of abandoned acquires.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, TTL, acquired, builder, client, refused, wire};
use fencepost_client::{AcquireError, Client, ConfigError, raw::v1};
use std::collections::HashSet;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use v1::acquire_response::Outcome;

fn with_reason(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
    Status::with_error_details(code, "no", details)
}

#[test]
fn a_client_needs_a_runtime() {
    assert!(matches!(Client::new("http://127.0.0.1:1"), Err(ConfigError::NoRuntime)));
}

#[tokio::test]
async fn a_client_needs_the_address_of_a_server() {
    for good in [
        "127.0.0.1:7420",
        "http://127.0.0.1:7420",
        "localhost",
        "[::1]:7420",
        "unix:/run/fencepost.sock",
        "a:1, http://b:1,unix:/run/c.sock",
    ] {
        assert!(Client::new(good).is_ok(), "{good}");
    }
    for bad in ["not an address", "https://127.0.0.1:7420/locks", "unix:fencepost.sock", ""] {
        let error = Client::new(bad).unwrap_err();
        assert!(matches!(&error, ConfigError::Address(_)), "{error:?}");
        assert!(error.to_string().starts_with(&format!("invalid server address {bad:?}: ")), "{error}");
    }
}

#[tokio::test]
async fn a_lock_exposes_its_grant() {
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("orders/42").ttl(TTL).metadata("pid", "7").min_token(9).await.unwrap();
    assert_eq!((lock.name(), lock.token(), lock.grant_id()), ("orders/42", 41, "grant-1"));
    assert_eq!((lock.lease_id(), lock.ttl()), (fake::lease_id("orders/42").as_str(), TTL));
    assert_eq!(lock.previous_end(), Some(fencepost_client::LeaseEnd::Expired));
    assert!(lock.is_valid() && lock.valid_for() <= TTL * 94 / 100);
    let request = fake.state().acquires[0].clone();
    assert_eq!((request.holder.as_str(), request.min_token, request.attempt), ("a test", 9, 1));
    assert_eq!(request.metadata["pid"], "7");
    assert!(uuid::Uuid::parse_str(&request.request_id).is_ok());
}

#[tokio::test]
async fn contention_names_the_holders() {
    let fake = Fake::start().await;
    let semaphore = v1::Semaphore { permits_used: 2, permit_limit: 2, permit_limit_version: 7 };
    fake.on_acquire(move |_| {
        let semaphore = Some(semaphore);
        Do::Answer(v1::AcquireResponse { semaphore, holder_count: 9, ..refused(Outcome::Contended) })
    });
    match client(&[&fake]).acquire("x").semaphore(2).await {
        Err(AcquireError::Contended { holders, holder_count: 9, waiters: 2, semaphore: permits, .. }) => {
            assert_eq!((holders[0].label.as_str(), permits), ("somebody", Some(semaphore.into())));
        }
        other => panic!("{other:?}"),
    }
    fake.on_acquire(|_| Do::Answer(refused(Outcome::TimedOut)));
    let error = client(&[&fake]).acquire("x").wait(Duration::from_millis(10)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    assert!(fake.state().releases.is_empty());
}

#[tokio::test]
async fn refusals_have_their_own_errors_and_are_not_retried() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    let mut bad_field = ErrorDetails::new();
    bad_field.add_bad_request_violation("ttl", "must be at least 1s");
    let bad_field = Status::with_error_details(Code::InvalidArgument, "bad request", bad_field);
    fake.on_acquire(move |_| Do::Fail(bad_field.clone()));
    match client.acquire("x").await {
        Err(AcquireError::Invalid { violations, .. }) => assert_eq!(violations[0].field, "ttl"),
        other => panic!("{other:?}"),
    }
    fake.on_acquire(|_| Do::Fail(with_reason(Code::Aborted, "OVERTAKEN")));
    assert!(matches!(client.acquire("x").await, Err(AcquireError::Overtaken)));
    fake.on_acquire(|_| Do::Fail(with_reason(Code::Aborted, "REQUEST_ENDED")));
    assert!(matches!(client.acquire("x").await, Err(AcquireError::Ended)));
    let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(3)));
    fake.on_acquire(move |_| Do::Fail(Status::with_error_details(Code::ResourceExhausted, "", details.clone())));
    let error = client.acquire("x").await.unwrap_err();
    assert!(matches!(error, AcquireError::Exhausted { retry_after: Some(d), .. } if d == Duration::from_secs(3)));
    assert_eq!(fake.state().acquires.len(), 4);
}

#[tokio::test]
async fn an_unknown_outcome_is_retried_elsewhere_with_the_same_id_the_next_attempt_and_the_remaining_wait() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(300)));
    let draining = Status::with_error_details(Code::Unavailable, "draining", details);
    a.on_acquire(move |_| Do::Fail(draining.clone()));
    let wait = Duration::from_secs(60);
    let lock = client(&[&a, &b]).acquire("x").wait(wait).await.unwrap();
    assert!(lock.is_valid());
    let (first, second) = (a.state().acquires[0].clone(), b.state().acquires[0].clone());
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(first.request_id, second.request_id);
    let left = Duration::try_from(second.wait_timeout.unwrap()).unwrap();
    assert!(left <= wait - Duration::from_millis(300), "the server's retry delay counts: {left:?}");
    assert_eq!((a.state().acquires.len(), b.state().acquires.len()), (1, 1));
}

#[tokio::test]
async fn a_wait_that_ends_before_the_retry_times_out() {
    let fake = Fake::start().await;
    let details = ErrorDetails::with_retry_info(Some(Duration::from_millis(300)));
    let draining = Status::with_error_details(Code::Unavailable, "draining", details);
    fake.on_acquire(move |request| match request.attempt {
        1 => Do::Fail(draining.clone()),
        _ => Do::Answer(refused(Outcome::Contended)),
    });
    let error = client(&[&fake]).acquire("x").wait(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    assert_eq!(fake.state().acquires[1].wait_timeout.unwrap_or_default(), wire(Duration::ZERO).unwrap());
}

/// A restarting server: it refuses the first attempt and knows the request as ended on the next ones.
fn unavailable_then_ended(request: &v1::AcquireRequest) -> Option<Do<v1::AcquireResponse>> {
    match request.attempt {
        1 => Some(Do::Fail(Status::unavailable("restarting"))),
        _ => Some(Do::Fail(with_reason(Code::Aborted, "REQUEST_ENDED"))),
    }
}

#[tokio::test]
async fn a_wait_whose_request_ended_meanwhile_continues_with_a_new_request() {
    let fake = Fake::start().await;
    let mut first = None;
    fake.on_acquire(move |request| {
        let first = first.get_or_insert_with(|| request.request_id.clone());
        let failed = (*first == request.request_id).then(|| unavailable_then_ended(request)).flatten();
        failed.unwrap_or_else(|| Do::Answer(acquired("x")))
    });
    let lock = client(&[&fake]).acquire("x").wait(BOUND).await.unwrap();
    assert!(lock.is_valid());
    let state = fake.state();
    let sent: Vec<_> = state.acquires.iter().map(|it| (it.request_id.as_str(), it.attempt)).collect();
    let (old, new) = (sent[0].0, sent[2].0);
    assert_eq!(sent, [(old, 1), (old, 2), (new, 1)]);
    assert!(old != new && uuid::Uuid::parse_str(new).is_ok());
    let left = Duration::try_from(state.acquires[2].wait_timeout.unwrap()).unwrap();
    assert!(left < BOUND && !left.is_zero(), "the remaining wait: {left:?}");
    assert!(state.releases.is_empty());
}

#[tokio::test]
async fn an_ended_request_fails_without_a_wait_or_with_an_id_of_the_caller() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| unavailable_then_ended(request).unwrap());
    let client = client(&[&fake]);
    assert!(matches!(client.acquire("x").await, Err(AcquireError::Ended)));
    let named = client.acquire("x").wait(BOUND).request_id(uuid::Uuid::new_v4());
    assert!(matches!(named.await, Err(AcquireError::Ended)));
    client.flush().await;
    assert_eq!(fake.state().acquires.len(), 4, "an ended request needs no cleanup");
}

#[tokio::test]
async fn a_call_moves_from_a_server_that_never_answers_to_the_next() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.on_acquire(|_| Do::Hang);
    let client = builder(&[&a, &b]).call_timeout(Duration::from_millis(1_500)).build().unwrap();
    let lock = client.acquire("x").await.unwrap();
    assert!(lock.is_valid());
    assert_eq!(b.state().acquires[0].attempt, 2);
    a.until("the call was cancelled", |state| state.dropped == [1]).await;
}

#[tokio::test]
async fn the_server_refuses_a_wait_beyond_its_bounds() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(Status::invalid_argument("too long")));
    let client = builder(&[&fake]).call_timeout(Duration::MAX).retry_for(Duration::MAX).build().unwrap();
    let error = client.acquire("x").ttl(Duration::MAX).wait(Duration::MAX).await.unwrap_err();
    assert!(matches!(error, AcquireError::Invalid { .. }), "{error:?}");
    for seconds in [-1, i64::MAX] {
        let wait_timeout = Some(prost_types::Duration { seconds, nanos: 0 });
        let request = v1::AcquireRequest { lock_name: "x".to_owned(), wait_timeout, ..Default::default() };
        assert_eq!(client.calls().acquire(request).await.unwrap_err().code(), fencepost_client::Code::InvalidArgument);
        assert_eq!(fake.state().acquires.last().unwrap().wait_timeout, wait_timeout, "sent unchanged");
    }
}

#[tokio::test]
async fn a_request_id_is_never_shown() {
    let fake = Fake::start().await;
    let id = uuid::Uuid::new_v4();
    let acquire = client(&[&fake]).acquire("x").request_id(id);
    assert!(!format!("{acquire:?}").contains(&id.to_string()));
    let lock = acquire.await.unwrap();
    assert_eq!(fake.state().acquires[0].request_id, id.to_string());
    assert!(!format!("{lock:?}").contains(&fake::lease_id("x")));
}

#[tokio::test]
async fn a_failed_connection_is_no_unknown_outcome() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder().server(&nobody).retry_for(Duration::from_millis(300)).build().unwrap();
    let error = client.acquire("x").await.unwrap_err();
    assert!(matches!(error, AcquireError::Unavailable { .. }), "{error:?}");
    // A second server that works hides the failure.
    let fake = Fake::start().await;
    let client = Client::builder().server(&nobody).server(&fake.url).build().unwrap();
    assert!(client.acquire("x").await.unwrap().is_valid());
}

/// People print the error, not its sources.
#[tokio::test]
async fn an_acquire_says_why_no_server_was_reached_when_its_wait_ends() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap().to_string();
    drop(listener);
    let socket = "unix:/nonexistent/fencepost.sock";
    for (server, why) in [(nobody.as_str(), "Connection refused (os error"), (socket, "No such file")] {
        let bound = Duration::from_millis(300);
        let client = Client::builder().server(server).retry_for(bound).build().unwrap();
        for wait in [Duration::ZERO, bound] {
            let error = client.acquire("x").wait(wait).await.unwrap_err().to_string();
            assert!(error.starts_with(&format!("no server could be reached: {server}: {why}")), "{error}");
        }
    }
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(Status::unavailable("lost")));
    let client = builder(&[&fake]).retry_for(Duration::from_millis(100)).build().unwrap();
    assert_eq!(client.acquire("x").await.unwrap_err().to_string(), "outcome unknown: lost");
}

#[tokio::test]
async fn an_outcome_that_stays_unknown_is_reported_and_cleaned_up() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| {
        if request.attempt < 4 { Do::Fail(Status::unavailable("lost")) } else { Do::Answer(acquired("x")) }
    });
    let client = builder(&[&fake]).retry_for(Duration::from_millis(120)).build().unwrap();
    let error = client.acquire("x").await.unwrap_err();
    assert!(matches!(error, AcquireError::OutcomeUnknown { .. }), "{error:?}");
    let transmitted = fake.state().acquires.iter().map(|request| request.attempt).max().unwrap();
    fake.until("cleaned up", |state| state.acquires.iter().any(|request| request.attempt > transmitted)).await;
}

#[tokio::test]
async fn a_refusal_after_an_unknown_outcome_is_reported_and_the_earlier_attempt_cleaned_up() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| match request.attempt {
        1 => Do::Fail(Status::unavailable("lost")),
        2 => Do::Fail(Status::resource_exhausted("too many wait")),
        _ => Do::Answer(acquired("x")),
    });
    let error = client(&[&fake]).acquire("x").wait(BOUND).await.unwrap_err();
    assert!(matches!(error, AcquireError::Exhausted { .. }), "{error:?}");
    fake.until("released", |state| state.releases.len() == 1).await;
    let state = fake.state();
    assert_eq!(state.acquires[2].wait_timeout.unwrap_or_default(), wire(Duration::ZERO).unwrap());
}

#[tokio::test]
async fn an_acquire_that_was_never_polled_sends_nothing() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    drop(client.acquire("x").into_future());
    client.flush().await;
    drop(client.acquire("y").await.unwrap());
    assert_eq!(fake.state().acquires.len(), 1);
}

#[tokio::test]
async fn a_grant_that_arrives_too_late_is_lost_and_released() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| {
        let short = v1::Lease { ttl: wire(Duration::from_millis(100)), ..fake::lease("x") };
        let answer = v1::AcquireResponse { lease: Some(short), ..acquired("x") };
        Do::Late(Duration::from_millis(200), answer)
    });
    let error = client(&[&fake]).acquire("x").await.unwrap_err();
    assert!(matches!(error, AcquireError::LostOnArrival { token: 41 }), "{error:?}");
    fake.until("released", |state| state.releases.len() == 1).await;
}

#[tokio::test]
async fn time_in_the_queue_does_not_shorten_the_lease() {
    let fake = Fake::start().await;
    let held_for = TTL + Duration::from_secs(1);
    fake.on_acquire(move |_| Do::Late(held_for, v1::AcquireResponse { held_for: wire(held_for), ..acquired("x") }));
    let lock = client(&[&fake]).acquire("x").ttl(TTL).wait(BOUND).await.unwrap();
    assert!(lock.valid_for() > TTL / 2);
}

#[tokio::test]
async fn a_malformed_answer_is_no_lock() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Answer(v1::AcquireResponse { lease: None, ..acquired("x") }));
    assert!(matches!(client(&[&fake]).acquire("x").await, Err(AcquireError::Answer)));
}

#[tokio::test]
async fn a_raw_acquire_gets_a_request_id_and_counts_its_attempts() {
    let fake = Fake::start().await;
    fake.on_acquire(
        |request| {
            if request.attempt < 8 { Do::Fail(Status::unavailable("")) } else { Do::Answer(acquired("x")) }
        },
    );
    let client = client(&[&fake]);
    let request = v1::AcquireRequest { lock_name: "x".to_owned(), attempt: 7, ..Default::default() };
    let timed = client.calls().acquire_timed(request).await.unwrap();
    {
        let state = fake.state();
        assert_eq!(state.acquires.iter().map(|request| request.attempt).collect::<Vec<_>>(), [7, 8]);
        assert!(!state.acquires[0].request_id.is_empty());
        assert!(state.timeouts.iter().all(Option::is_some), "every call has a deadline");
    }
    let lock = client.keep(timed.message.lease.unwrap().into(), timed.sent_at, Duration::ZERO);
    assert!(lock.is_valid());
    fake.until("kept alive", |state| state.streams.iter().any(|stream| stream.attached.len() == 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_any_moment_leave_nothing_behind() {
    let fake = Fake::start().await;
    fake.on_acquire(|request| {
        // Like a store: the same request is always granted the same lease.
        let granted = v1::Lease { lease_id: request.request_id.clone(), ..fake::lease(&request.lock_name) };
        let answer = v1::AcquireResponse { lease: Some(granted), ..acquired("") };
        let late = Duration::from_micros(u64::from(request.request_id.as_bytes()[0]) * 20);
        Do::Late(late, answer)
    });
    let client = client(&[&fake]);
    let mut given_up = 0;
    for n in 0..300 {
        let acquire = client.acquire(format!("lock-{n}")).wait(BOUND).into_future();
        match tokio::time::timeout(Duration::from_micros(n * 20), acquire).await {
            Ok(lock) => drop(lock.unwrap()),
            Err(_) => given_up += 1,
        }
    }
    tokio::time::timeout(BOUND, client.flush()).await.unwrap();
    assert!(given_up > 0);
    let state = fake.state();
    let released: HashSet<_> = state.releases.iter().map(|request| &request.lease_id).collect();
    for granted in &state.granted {
        assert!(released.contains(granted), "left behind: {granted:?}");
    }
    assert!(state.streams.iter().all(|stream| stream.attached.is_empty()), "kept alive");
}

//! What a client does above a quota: it repeats on the same server, after the delay, as long as its caller waits.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod fake;

use fake::{BOUND, Do, Fake, TTL, acquired, builder, client};
use fencepost_client::{AcquireError, Client, Code, Lock, Moment, ReleaseError, raw::v1};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

/// The delay that the servers ask for.
const DELAY: Duration = Duration::from_millis(80);

fn full(reason: &str, delay: Duration) -> Status {
    let mut details = ErrorDetails::with_retry_info(Some(delay));
    details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
    Status::with_error_details(tonic::Code::ResourceExhausted, "no", details)
}

fn over_quota() -> Status {
    full("QUOTA_EXCEEDED", DELAY)
}

/// Refuses so many acquires. Returns when each came.
fn refuse(fake: &Fake, times: usize) -> Arc<Mutex<Vec<Moment>>> {
    let came = Arc::<Mutex<Vec<Moment>>>::default();
    let all = came.clone();
    fake.on_acquire(move |request| {
        let mut all = all.lock().unwrap();
        all.push(Moment::now());
        if all.len() <= times { Do::Fail(over_quota()) } else { Do::Answer(acquired(&request.lock_name)) }
    });
    came
}

fn is_over_quota(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Exhausted { reason, retry_after: Some(DELAY), .. } if reason == "QUOTA_EXCEEDED")
}

/// Whether nothing was asked of a server.
fn is_untouched(fake: &Fake) -> bool {
    let state = fake.state();
    state.acquires.is_empty() && state.authorizations.is_empty() && state.streams.is_empty()
}

fn wait(client: &Client) -> JoinHandle<Result<Lock, AcquireError>> {
    tokio::spawn(client.acquire("x").ttl(TTL).wait(BOUND).into_future())
}

/// The lock that a task waits for.
async fn lock(waiting: JoinHandle<Result<Lock, AcquireError>>) -> Lock {
    timeout(BOUND, waiting).await.unwrap().unwrap().unwrap()
}

#[tokio::test]
async fn an_acquire_that_waits_is_repeated_on_the_same_server_after_the_delay() {
    for unary in [false, true] {
        let (a, b) = (Fake::start().await, Fake::start().await);
        let came = refuse(&a, 2);
        let client = client(&[&a, &b]);
        if unary {
            let request =
                v1::AcquireRequest { lock_name: "x".into(), wait_timeout: fake::wire(BOUND), ..Default::default() };
            timeout(BOUND, client.calls().acquire(request)).await.unwrap().unwrap();
        } else {
            lock(wait(&client)).await.release().await.unwrap();
        }
        let sent = a.state().acquires.iter().map(|it| (it.request_id.clone(), it.attempt)).collect::<Vec<_>>();
        assert_eq!(sent, [1, 2, 3].map(|attempt| (sent[0].0.clone(), attempt)));
        let came = came.lock().unwrap();
        assert!(came.windows(2).all(|two| two[1].since(two[0]) >= DELAY), "{came:?}");
        assert!(is_untouched(&b));
    }
}

#[tokio::test]
async fn an_acquire_that_does_not_wait_is_told_at_once() {
    let fake = Fake::start().await;
    refuse(&fake, 2);
    let client = client(&[&fake]);
    let error = client.acquire("x").await.unwrap_err();
    assert!(is_over_quota(&error), "{error:?}");
    let request = v1::AcquireRequest { lock_name: "x".into(), ..Default::default() };
    let error = client.calls().acquire(request).await.unwrap_err();
    assert_eq!((error.reason().as_deref(), error.retry_delay()), (Some("QUOTA_EXCEEDED"), Some(DELAY)));
    assert_eq!(fake.state().acquires.len(), 2);
}

#[tokio::test]
async fn a_wait_that_ends_above_the_quota_says_so_and_leaves_nothing_to_withdraw() {
    let fake = Fake::start().await;
    refuse(&fake, usize::MAX);
    let client = client(&[&fake]);
    let error = client.acquire("x").wait(2 * DELAY + DELAY / 2).await.unwrap_err();
    assert!(is_over_quota(&error), "{error:?}");
    client.flush().await;
    let state = fake.state();
    assert!(state.acquires.len() <= 3 && state.releases.is_empty(), "{:?}", state.acquires);
}

#[tokio::test]
async fn an_acquire_that_is_dropped_between_two_transmissions_sends_nothing_more() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(full("QUOTA_EXCEEDED", BOUND / 2)));
    let client = client(&[&fake]);
    let waiting = wait(&client);
    fake.until("refused", |state| !state.acquires.is_empty()).await;
    // The client has the answer: it comes before that to the next one on the same stream.
    assert!(client.acquire("y").await.is_err());
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    client.flush().await;
    let state = fake.state();
    let names = state.acquires.iter().map(|it| it.lock_name.as_str()).collect::<Vec<_>>();
    assert!(names == ["x", "y"] && state.streams[0].cancelled.is_empty(), "{names:?}");
}

#[tokio::test]
async fn a_request_that_may_be_applied_is_withdrawn_whatever_the_quota() {
    let fake = Fake::start().await;
    let mut answers = vec![Do::Fail(over_quota()), Do::Fail(over_quota()), Do::Fail(Status::unavailable("lost"))];
    fake.on_acquire(move |request| answers.pop().unwrap_or_else(|| Do::Answer(acquired(&request.lock_name))));
    let client = client(&[&fake]);
    let error = client.acquire("x").await.unwrap_err();
    assert!(is_over_quota(&error), "{error:?}");
    client.flush().await;
    let state = fake.state();
    assert_eq!(state.acquires.iter().map(|it| it.attempt).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(state.releases.len(), 1);
}

#[tokio::test]
async fn a_refused_session_is_opened_again_on_the_same_server_and_acquires_wait_for_it() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.state().refuses = Some(over_quota());
    let client = client(&[&a, &b]);
    let waiting = [wait(&client), wait(&client)];
    a.until("refused twice", |state| state.authorizations.len() >= 2).await;
    assert!(waiting.iter().all(|it| !it.is_finished()));
    a.state().refuses = None;
    for waiting in waiting {
        assert!(lock(waiting).await.is_valid());
    }
    assert_eq!((a.state().streams.len(), is_untouched(&b)), (1, true));
}

#[tokio::test]
async fn operations_wait_for_a_refused_session_until_their_time_is_over_and_say_why() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).retry_for(Duration::from_millis(300)).build().unwrap();
    let held = client.acquire("x").ttl(TTL).await.unwrap();
    fake.state().refuses = Some(over_quota());
    fake.end_streams();
    fake.until("refused", |state| state.authorizations.len() >= 2).await;
    let (began, error) = (Moment::now(), client.acquire("y").await.unwrap_err());
    assert!(is_over_quota(&error) && Moment::now().since(began) >= DELAY, "{error:?}");
    assert!(held.is_valid());
    let error = held.release().await.unwrap_err();
    assert!(matches!(&error, ReleaseError::Refused { cause } if cause.reason().as_deref() == Some("QUOTA_EXCEEDED")));
    let state = fake.state();
    assert!(state.authorizations.len() < 10, "one session after each delay: {}", state.authorizations.len());
}

#[tokio::test]
async fn leases_stay_with_the_server_that_refuses_their_session_for_a_quota() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    let client = client(&[&a, &b]);
    let held = client.acquire("x").ttl(TTL).await.unwrap();
    b.state().refuses = Some(over_quota());
    a.end_streams();
    b.until("refused twice", |state| state.authorizations.len() >= 2).await;
    b.state().refuses = None;
    b.until("attached", |state| state.streams.iter().any(|stream| stream.attached.len() == 1)).await;
    assert!(held.is_valid());
    assert_eq!(a.state().streams.len(), 1);
}

#[tokio::test]
async fn a_server_that_is_full_is_left_for_the_next_one() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    (a.state().refuses, a.state().refuses_observers) =
        (Some(full("SERVER_FULL", DELAY)), Some(full("WATCHERS_FULL", DELAY)));
    assert!(lock(wait(&client(&[&a, &b]))).await.is_valid());
    assert_eq!(b.state().streams.len(), 1);
    let mut observing = client(&[&a, &b]).observe("x");
    observed(&b, &mut observing).await;
}

#[tokio::test]
async fn an_observer_above_its_quota_goes_on_with_the_same_server() {
    let (a, b) = (Fake::start().await, Fake::start().await);
    a.state().refuses_observers = Some(over_quota());
    let mut observing = client(&[&a, &b]).observe("x");
    a.until("refused twice", |state| state.refused_observers >= 2).await;
    a.state().refuses_observers = None;
    observed(&a, &mut observing).await;
    assert!(b.state().observers.is_empty());
    // A call that opens it once is told.
    a.state().refuses_observers = Some(over_quota());
    let request = v1::ObserveRequest { lock_name: "x".into() };
    let error = client(&[&a, &b]).calls().observe(request).await.unwrap_err();
    assert_eq!((error.code(), error.retry_delay()), (Code::ResourceExhausted, Some(DELAY)));
}

/// An observer gets a state of this server.
async fn observed(fake: &Fake, observing: &mut fencepost_client::Observing) {
    fake.until("it observes", |state| state.observers.len() == 1).await;
    let to_client = fake.state().observers[0].clone();
    let lock = Some(v1::LockInfo { lock_name: "x".to_owned(), newest_token: 7, ..Default::default() });
    to_client.send(Ok(v1::ObserveResponse { lock })).await.unwrap();
    assert_eq!(timeout(BOUND, observing.next()).await.unwrap().unwrap().newest_token, Some(7));
}

#[tokio::test]
async fn a_campaign_goes_on_above_the_quota() {
    let fake = Fake::start().await;
    refuse(&fake, 1);
    let led = client(&[&fake]).acquire("x").lead(|lock| async move { lock.token() });
    assert_eq!(timeout(BOUND, led).await.unwrap().unwrap(), 41);
}

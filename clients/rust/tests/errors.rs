//! The texts of errors: each is complete, and no source repeats it.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;

use fake::{Do, Fake, acquired, builder, client, refused, released};
use fencepost_client::raw::v1::{self, acquire_response::Outcome};
use fencepost_client::{AcquireError, Client, LossCause, ReleaseError, RunError, Tls};
use std::error::Error;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// As `{:#}` of anyhow prints it.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut parts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        parts.push(error.to_string());
        source = error.source();
    }
    parts.join(": ")
}

/// Its text, which the chain of sources does not repeat.
fn text(error: &(dyn Error + 'static)) -> String {
    let (text, chain) = (error.to_string(), chain(error));
    assert!(!text.is_empty() && text == chain, "{text} is not {chain}");
    text
}

fn with_reason(code: Code, message: &str, reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "fencepost", std::collections::HashMap::new());
    Status::with_error_details(code, message, details)
}

const RETRY_FOR: Duration = Duration::from_millis(200);

#[tokio::test]
async fn an_acquire_says_what_happened() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).retry_for(RETRY_FOR).build().unwrap();
    let failed = async |answer: fn() -> Do<v1::AcquireResponse>| {
        fake.on_acquire(move |_| answer());
        text(&client.acquire("orders/42").await.unwrap_err())
    };
    for (answer, message) in [
        (
            (|| Do::Answer(refused(Outcome::Contended))) as fn() -> Do<v1::AcquireResponse>,
            "orders/42 is held by somebody, 2 waiting",
        ),
        (
            || Do::Answer(refused(Outcome::TimedOut)),
            "timed out waiting for orders/42: it is held by somebody, 2 waiting",
        ),
        (|| Do::Fail(Status::unavailable("lost")), "outcome unknown: lost"),
        (|| Do::Fail(with_reason(Code::Unavailable, "this server drains", "DRAINING")), "this server drains"),
        (
            || Do::Fail(with_reason(Code::FailedPrecondition, "no more tokens", "TOKENS_EXHAUSTED")),
            "no more tokens (TOKENS_EXHAUSTED)",
        ),
        (
            || Do::Fail(with_reason(Code::InvalidArgument, "ttl must be at least 1s", "INVALID_FIELD")),
            "ttl must be at least 1s (INVALID_FIELD)",
        ),
        (
            || Do::Fail(with_reason(Code::ResourceExhausted, "the queue is full", "QUEUE_FULL")),
            "the queue is full (QUEUE_FULL)",
        ),
        (|| Do::Fail(Status::internal("")), "the call ended with the code INTERNAL and no message"),
    ] {
        assert_eq!(failed(answer).await, message);
    }
}

#[tokio::test]
async fn nothing_done_is_unavailable_and_keeps_its_reason() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(with_reason(Code::Unavailable, "no store", "STORE_UNAVAILABLE")));
    let client = builder(&[&fake]).retry_for(RETRY_FOR).build().unwrap();
    let error = client.acquire("x").await.unwrap_err();
    let AcquireError::Unavailable { source } = &error else { panic!("{error:?}") };
    assert_eq!(source.reason().as_deref(), Some("STORE_UNAVAILABLE"));
    assert!(source.is_unavailable() && !source.is_unreachable());
}

#[tokio::test]
async fn a_release_says_what_happened_and_until_when_the_lock_is_held() {
    let fake = Fake::start().await;
    let client = builder(&[&fake]).retry_for(RETRY_FOR).build().unwrap();
    for (status, message) in [
        (Status::unavailable("lost"), "outcome unknown: lost; the lock is free after its TTL at the latest"),
        (Status::permission_denied("no"), "no; the lock is free after its TTL"),
        (with_reason(Code::Unavailable, "no store", "STORE_UNAVAILABLE"), "no store; the lock is free after its TTL"),
    ] {
        let lock = client.acquire("x").await.unwrap();
        fake.on_release(move |_| Do::Fail(status.clone()));
        assert_eq!(text(&lock.release().await.unwrap_err()), message);
        fake.on_release(|_| Do::Answer(released(v1::LeaseEnd::Released)));
    }
}

/// Answers the first call so, and no later one.
fn once<Res>(status: Status) -> impl FnMut() -> Do<Res> {
    let mut first = Some(status);
    move || first.take().map_or(Do::Hang, Do::Fail)
}

#[tokio::test]
async fn a_call_whose_last_try_got_no_answer_tells_the_answer_before() {
    let fakes = [Fake::start().await, Fake::start().await, Fake::start().await];
    let clients = fakes.each_ref().map(|fake| builder(&[fake]).retry_for(Duration::from_secs(2)).build().unwrap());
    let away = || with_reason(Code::Unavailable, "Redis is away", "STORE_UNAVAILABLE");
    let held = clients[2].acquire("x").await.unwrap();
    for fake in &fakes[..2] {
        let mut next = once(away());
        fake.on_acquire(move |_| next());
    }
    let mut next = once(away());
    fakes[2].on_release(move |_| next());
    let request = v1::AcquireRequest { lock_name: "x".to_owned(), ..Default::default() };
    let calls = clients[1].calls();
    let (acquire, call, release) =
        tokio::join!(clients[0].acquire("x").into_future(), calls.acquire(request), held.release());
    let (acquire, call, release) = (acquire.unwrap_err(), call.unwrap_err(), release.unwrap_err());
    let AcquireError::OutcomeUnknown { source } = &acquire else { panic!("{acquire:?}") };
    let ReleaseError::OutcomeUnknown { cause: Some(cause) } = &release else { panic!("{release:?}") };
    for (error, text, fake) in
        [(source, text(&acquire), &fakes[0]), (&call, text(&call), &fakes[1]), (cause, text(&release), &fakes[2])]
    {
        let server = fake.url.trim_start_matches("http://");
        let told = format!(
            "outcome unknown: {server}: no answer in time; the last answer was UNAVAILABLE (STORE_UNAVAILABLE): Redis is \
             away"
        );
        assert!(text.starts_with(&told), "{text}");
        assert_eq!((error.code(), error.reason()), (fencepost_client::Code::DeadlineExceeded, None), "the last try");
        let answer = error.last_answer().unwrap();
        assert_eq!((answer.code(), answer.did_nothing()), (fencepost_client::Code::Unavailable, true));
    }
}

#[tokio::test]
async fn an_answer_of_another_server_is_told_once() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| Do::Fail(with_reason(Code::Unavailable, "Redis is away", "STORE_UNAVAILABLE")));
    // Nothing listens on port 1.
    let client = |[first, second]: [&str; 2]| {
        Client::builder().server(first).server(second).retry_for(Duration::from_secs(2)).build().unwrap()
    };
    let (one, other) = (client([&fake.url, "127.0.0.1:1"]), client(["127.0.0.1:1", &fake.url]));
    let (one, other) = tokio::join!(one.acquire("x").into_future(), other.acquire("x").into_future());
    for error in [one.unwrap_err(), other.unwrap_err()] {
        assert_eq!(text(&error).matches("Redis is away").count(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_lost_lock_says_why() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    for (end, cause, message) in [
        (
            v1::LeaseEnd::Revoked,
            LossCause::Revoked,
            "x (token 41) is lost: the lease was revoked; token 42 holds it now",
        ),
        (
            v1::LeaseEnd::Released,
            LossCause::ReleasedElsewhere,
            "x (token 41) is lost: the lease was released elsewhere; token 42 holds it now",
        ),
    ] {
        fake.on_acquire(|_| Do::Answer(acquired("x")));
        let lock = client.acquire("x").await.unwrap();
        let lost = lock.lost();
        let running = client.acquire("x").run(|_| std::future::pending::<()>());
        fake.tell_each(|handle| {
            v1::session_response::Message::Lost(v1::Lost { handle, end: end.into(), successor_token: 42 })
        });
        let lost = tokio::time::timeout(fake::BOUND, lost).await.unwrap();
        assert_eq!((lost.cause, text(&lost)), (cause, message.to_owned()));
        drop(running);
        assert_eq!(text(&RunError::Lost(lost)), message);
    }
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_named_once() {
    let missing = Tls::new().ca_file("/nonexistent/ca.pem");
    for (build, message) in [
        (Client::new("a:0"), "invalid server address \"a:0\": the port must be a number from 1 to 65535"),
        (
            Client::builder().server("https://a").tls(missing.clone()).build(),
            "cannot use /nonexistent/ca.pem: No such file or directory (os error 2)",
        ),
        (
            Client::builder().server("a").tls(missing).build(),
            "TLS settings are given, but a:7420 is an address without TLS: write https://a:7420",
        ),
    ] {
        assert_eq!(text(&build.unwrap_err()), message);
    }
}

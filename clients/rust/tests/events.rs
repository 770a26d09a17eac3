//! What the client logs: each event once, with the target `fencepost_client`, and without secrets.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod fake;

use fake::{BOUND, Fake, TTL, client};
use fencepost_client::raw::v1::{self, session_response::Message as ServerMessage};
use fencepost_client::{Client, LossCause};
use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The logged texts, with their levels.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<(Level, String)>>,
    changed: watch::Sender<()>,
}

static LOG: OnceLock<Log> = OnceLock::new();

struct Recorder;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "fencepost_client" && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let log = LOG.get().unwrap();
        log.lines.lock().unwrap().push((*event.metadata().level(), text.0));
        log.changed.send_replace(());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The events about this lock or server, once there are so many of them.
async fn about(what: &str, count: usize) -> Vec<(Level, String)> {
    let log = LOG.get_or_init(|| {
        tracing::subscriber::set_global_default(Recorder).unwrap();
        Log::default()
    });
    let mut changes = log.changed.subscribe();
    let found = async {
        loop {
            let lines =
                log.lines.lock().unwrap().iter().filter(|line| line.1.contains(what)).cloned().collect::<Vec<_>>();
            if lines.len() >= count {
                return lines;
            }
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(BOUND, found).await.unwrap_or_else(|_| panic!("{:?}", log.lines.lock().unwrap()))
}

fn one((level, text): &(Level, String), expected: Level, start: &str, end: &str) {
    assert_eq!(*level, expected, "{text}");
    assert!(text.starts_with(start) && text.ends_with(end), "{text}");
    assert!(!text.contains(&fake::lease_id("risky")), "{text}");
}

#[tokio::test]
async fn renewals_that_fail_and_work_again_and_a_loss_are_logged_once() {
    about("", 0).await;
    let fake = Fake::start().await;
    let lock = client(&[&fake]).acquire("risky").ttl(TTL).await.unwrap();
    let at_risk = |handle| ServerMessage::AtRisk(v1::AtRisk { handles: vec![handle] });
    fake.update(|state| state.renews_leases = false);
    for _ in 0..3 {
        fake.tell_each(at_risk);
    }
    let begin = about("renewals of risky", 1).await;
    one(
        &begin[0],
        Level::WARN,
        "renewals of risky fail, it is valid for another ",
        ": the server cannot reach its store",
    );
    fake.update(|state| state.renews_leases = true);
    one(&about("risky is renewed", 1).await[0], Level::INFO, "risky is renewed again", "");
    fake.tell_each(|handle| {
        let end = v1::LeaseEnd::Revoked.into();
        ServerMessage::Lost(v1::Lost { handle, end, successor_token: 0 })
    });
    assert_eq!(lock.lost().await.cause, LossCause::Revoked);
    let lines = about("risky", 3).await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    one(&lines[2], Level::WARN, "risky (token 41) is lost: the lease was revoked", "");
}

#[tokio::test]
async fn a_server_that_fails_is_logged_once_with_the_reason_and_the_next_one() {
    about("", 0).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (fake, bound) = (Fake::start().await, Duration::from_secs(2));
    let right = fake.url.trim_start_matches("http://").to_owned();
    let client = Client::builder().server(&nobody).server(&fake.url).build().unwrap();
    client.acquire("y").await.unwrap().release().await.unwrap();
    let lines = about(&nobody, 1).await;
    one(&lines[0], Level::INFO, &format!("server {nobody} failed ("), &format!("), trying {right}"));
    assert!(lines[0].1.contains("Connection refused"), "{lines:?}");
    // The only server: many retries, one event.
    let alone = Client::builder().server(&nobody).retry_for(bound).build().unwrap();
    alone.acquire("y").await.unwrap_err();
    let lines = about(&nobody, 2).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    one(&lines[1], Level::INFO, &format!("server {nobody} failed ("), "), trying again");
}

#[tokio::test]
async fn a_release_in_the_background_that_gave_up_is_logged() {
    about("", 0).await;
    let fake = Fake::start().await;
    let client = fake::builder(&[&fake]).retry_for(Duration::from_millis(300)).build().unwrap();
    let lock = client.acquire("late").await.unwrap();
    fake.on_release(|_| fake::Do::Fail(tonic::Status::unavailable("lost")));
    drop(lock);
    client.flush().await;
    let (start, end) =
        ("late could not be released in the background: outcome unknown: ", "; it is free after its TTL");
    one(&about("late could not", 1).await[0], Level::WARN, start, end);
}

#[tokio::test]
async fn a_server_with_another_store_is_logged_once() {
    about("", 0).await;
    let (first, second) = (Fake::start().await, Fake::start().await);
    first.update(|state| state.store_id = Some("c0ffee".to_owned()));
    second.update(|state| state.store_id = Some("f00d".to_owned()));
    let address = |fake: &Fake| fake.url.trim_start_matches("http://").to_owned();
    let start = format!("{} does not have the store that {} had: ", address(&second), address(&first));
    let lock = client(&[&first, &second]).acquire("moving").ttl(TTL).await.unwrap();
    // There and back, and there again, which is no news.
    for (from, to) in [(&first, &second), (&second, &first), (&first, &second)] {
        let before = to.state().streams.len();
        from.tell(&ServerMessage::Draining(v1::Draining { grace: None }));
        let moved = |state: &fake::State| state.streams.iter().skip(before).any(|stream| !stream.attached.is_empty());
        to.until("the lock has moved", moved).await;
    }
    let lines = about(&start, 1).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    one(&lines[0], Level::WARN, &start, "a lock of one excludes nobody on the other");
    drop(lock);
}

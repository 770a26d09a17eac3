//! Grants that arrive late, and what a client does without settings.
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

#[path = "../../../tests/support/authority.rs"]
mod authority;
#[path = "../../../tests/support/certificates.rs"]
mod certificates;
mod fake;
mod front;

use authority::Authority;
use fake::{BOUND, Do, Fake, TTL, acquired, builder, client, refused, wire};
use fencepost_client::{AcquireError, Client, Moment, Tls, raw::v1};
use front::{Front, Settings};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use v1::acquire_response::Outcome;

/// Grants a lease of 100 ms that is over when the answer arrives.
fn over() -> Do<v1::AcquireResponse> {
    let short = v1::Lease { ttl: wire(Duration::from_millis(100)), ..fake::lease("x") };
    Do::Late(Duration::from_millis(200), v1::AcquireResponse { lease: Some(short), ..acquired("x") })
}

#[tokio::test]
async fn a_grant_of_which_less_than_half_is_left_is_renewed_before_it_is_handed_out() {
    let fake = Fake::start().await;
    // The rest of a lease that was granted to an earlier attempt.
    fake.on_acquire(|_| {
        let rest = v1::Lease { ttl: wire(TTL * 2 / 5), ..fake::lease("x") };
        Do::Answer(v1::AcquireResponse { lease: Some(rest), ..acquired("x") })
    });
    // The session does not renew it meanwhile.
    fake.update(|state| state.beats = false);
    let lock = client(&[&fake]).acquire("x").ttl(TTL).await.unwrap();
    assert!(lock.valid_for() > TTL / 2, "{:?}", lock.valid_for());
    let state = fake.state();
    assert_eq!((state.renews.len(), state.acquires.len()), (1, 1));
    assert_eq!(state.renews[0].lease_id, fake::lease_id("x"));
}

#[tokio::test]
async fn a_grant_in_time_is_not_renewed() {
    let fake = Fake::start().await;
    fake.update(|state| state.beats = false);
    let lock = client(&[&fake]).acquire("x").ttl(TTL).await.unwrap();
    assert!(lock.is_valid() && fake.state().renews.is_empty());
}

#[tokio::test]
async fn a_grant_that_is_over_on_arrival_is_released_and_the_lock_acquired_again() {
    let fake = Fake::start().await;
    let mut attempts = 0;
    fake.on_acquire(move |_| {
        attempts += 1;
        if attempts == 1 { over() } else { Do::Answer(acquired("x")) }
    });
    let client = client(&[&fake]);
    let lock = client.acquire("x").wait(BOUND).await.unwrap();
    assert!(lock.is_valid());
    fake.until("the first lease is released", |state| !state.releases.is_empty()).await;
    let state = fake.state();
    let [first, second] = state.acquires.as_slice() else { panic!("{:?}", state.acquires) };
    assert_ne!(first.request_id, second.request_id, "the first request has ended");
    assert_eq!(second.attempt, 1);
    let left = Duration::try_from(second.wait_timeout.unwrap()).unwrap();
    assert!(left <= BOUND - Duration::from_millis(200), "the rest of the wait: {left:?}");
}

#[tokio::test]
async fn a_server_whose_grants_are_all_over_is_asked_with_pauses() {
    let fake = Fake::start().await;
    let (asked, mut times) = tokio::sync::mpsc::unbounded_channel();
    fake.on_acquire(move |_| {
        asked.send(Moment::now()).unwrap();
        let over = v1::Lease { ttl: wire(Duration::ZERO), ..fake::lease("x") };
        Do::Answer(v1::AcquireResponse { lease: Some(over), ..acquired("x") })
    });
    let acquire = client(&[&fake]).acquire("x").wait(Duration::from_secs(2));
    assert!(matches!(acquire.await, Err(AcquireError::LostOnArrival { .. })));
    // The pauses grow: at least 25 ms, 50 ms, and so on.
    let (mut last, mut pause) = (times.try_recv().unwrap(), Duration::from_millis(25));
    while let Ok(next) = times.try_recv() {
        assert!(next.since(last) >= pause, "{:?}, not {pause:?}", next.since(last));
        (last, pause) = (next, (pause * 2).min(Duration::from_millis(500)));
    }
}

#[tokio::test]
async fn a_request_with_an_id_of_its_own_is_not_replaced() {
    let fake = Fake::start().await;
    fake.on_acquire(|_| over());
    let acquire = client(&[&fake]).acquire("x").wait(BOUND).request_id(uuid::Uuid::new_v4());
    assert!(matches!(acquire.await, Err(AcquireError::LostOnArrival { .. })));
    fake.until("released", |state| state.releases.len() == 1).await;
    assert_eq!(fake.state().acquires.len(), 1);
}

/// The validity counts from sending, so a slow handshake must not use it up.
#[tokio::test]
async fn a_request_is_sent_when_the_connection_is_ready_and_its_lease_counts_from_then() {
    let (fake, authority) = (Fake::start().await, Authority::new("one"));
    let front = Front::start(&fake.url, &authority.server(), &Settings::default()).await;
    let gate = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", gate.local_addr().unwrap());
    let tls = Tls::new().ca_file(authority.file());
    let client = Client::builder().server(address).tls(tls).build().unwrap();
    let acquiring = tokio::spawn(async move { client.acquire("x").ttl(TTL).await.unwrap() });
    // The handshake waits here.
    let (mut stream, _) = gate.accept().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let opened = Moment::now();
    tokio::spawn(async move {
        let mut server = TcpStream::connect(front.url().trim_start_matches("https://")).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
    });
    let lock = acquiring.await.unwrap();
    let left = lock.valid_for();
    assert!(Moment::now().plus(left) >= opened.plus(TTL * 94 / 100), "{left:?}");
    assert!(fake.state().renews.is_empty(), "it came in time");
}

#[tokio::test]
async fn try_acquire_says_whether_the_lock_is_free() {
    let fake = Fake::start().await;
    let client = client(&[&fake]);
    assert!(client.try_acquire("x").await.unwrap().is_some());
    fake.on_acquire(|_| Do::Answer(refused(Outcome::Contended)));
    assert!(client.try_acquire("x").await.unwrap().is_none());
    fake.on_acquire(|_| Do::Fail(tonic::Status::invalid_argument("no")));
    assert!(matches!(client.try_acquire("x").await, Err(AcquireError::Invalid { .. })));
    assert!(fake.state().acquires.iter().all(|request| request.wait_timeout.unwrap_or_default() == Default::default()));
}

#[tokio::test]
async fn the_default_holder_names_the_process() {
    let fake = Fake::start().await;
    let unnamed = Client::new(&fake.url).unwrap();
    drop(unnamed.acquire("x").await.unwrap());
    drop(builder(&[&fake]).holder("").build().unwrap().acquire("x").await.unwrap());
    let state = fake.state();
    let holder = &state.acquires[0].holder;
    assert!(holder.contains('@') && holder.ends_with(&format!(":{}", std::process::id())), "{holder}");
    assert_eq!(state.acquires[1].holder, "", "a label that is set to nothing");
}

#[tokio::test]
async fn a_list_of_addresses_is_tried_in_turn() {
    let fake = Fake::start().await;
    // Nothing listens on port 1.
    let list = format!("127.0.0.1:1, {}", fake.url.trim_start_matches("http://"));
    let client = Client::new(list).unwrap();
    assert!(client.acquire("x").await.unwrap().is_valid());
}

/// Other tests run in this process, so the variables are those of another one.
#[tokio::test]
async fn without_settings_the_environment_names_the_servers() {
    if let Ok(expected) = std::env::var("TEST_ENVIRONMENT") {
        let client = Client::from_env().map_err(|error| error.to_string());
        match expected.as_str() {
            "acquires" => assert!(client.unwrap().acquire("x").await.unwrap().is_valid()),
            why => assert!(client.unwrap_err().contains(why)),
        }
        return;
    }
    let fake = Fake::start().await;
    let list = format!("127.0.0.1:1,{}", fake.url);
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "secret\n").unwrap();
    let token = token.path().to_str().unwrap();
    for (variables, expected) in [
        (vec![("FENCEPOST_SERVER", list.as_str())], "acquires"),
        (vec![("FENCEPOST_SERVER", list.as_str()), ("FENCEPOST_CREDENTIALS", token)], "acquires"),
        (vec![("FENCEPOST_SERVER", "a:1"), ("FENCEPOST_CREDENTIALS", token)], "a bearer token is given, but a:1"),
        (vec![("FENCEPOST_SERVER", "no server")], "invalid server address \"no server\""),
        (vec![("FENCEPOST_SERVER", "https://a:1"), ("FENCEPOST_CA", "/nowhere.pem")], "/nowhere.pem"),
        (vec![("FENCEPOST_SERVER", "https://a:1"), ("FENCEPOST_CERT", "/nowhere.pem")], "set FENCEPOST_KEY as well"),
        (vec![("FENCEPOST_SERVER", "a:1"), ("FENCEPOST_CA", "/nowhere.pem")], "an address without TLS"),
    ] {
        let mut test = tokio::process::Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "without_settings_the_environment_names_the_servers"]).env("TEST_ENVIRONMENT", expected);
        let ended = test.envs(variables.iter().copied()).output().await.unwrap();
        assert!(ended.status.success(), "{variables:?}: {}", String::from_utf8_lossy(&ended.stdout));
    }
    let sent = fake.state().authorizations.clone();
    assert!(sent.contains(&Some("Bearer secret".to_owned())) && sent.contains(&None), "{sent:?}");
}

//! The Rust client against the real server.

use crate::{
    link::freezable_link,
    support::{Lock as _, Server, until, within},
};
use fencepost_client::{AcquireError, Client, LossCause, RunError, Status};
use fencepost_proto::v1::{CheckTokenRequest, check_token_response};
use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Long enough for the client's safety margins on a busy machine.
const TTL: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(50);

fn client(server: &Server) -> Client {
    Client::new(format!("http://{}", server.addr)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_for_many_ttls_and_passes_to_the_next_waiter_when_released() {
    let server = Server::start().await;
    let (one, two) = (client(&server), client(&server));
    let lock = within(async { one.acquire("a").ttl(TTL).await }).await.unwrap();
    let kept_until = Instant::now() + TTL * 3;
    while Instant::now() < kept_until {
        assert!(lock.is_valid(), "{:?}", lock.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(two.acquire("a").ttl(TTL).await, Err(AcquireError::Contended { .. })));
    let token = lock.token();
    let next = tokio::spawn(async move { two.acquire("a").ttl(TTL).wait(LONG).await });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    assert!(within(lock.release()).await.unwrap().was_held());
    assert!(within(next).await.unwrap().unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_is_elected_when_the_leader_resigns_however_short_waits_are() {
    let server = Server::start_with(|config| config.limits.wait_max = Duration::from_secs(2)).await;
    let (one, two, resign) = (client(&server), client(&server), Arc::new(Notify::new()));
    let resigns = resign.clone();
    let first = tokio::spawn(one.acquire("a").lead(move |lock| {
        let resigns = resigns.clone();
        async move {
            resigns.notified().await;
            lock.token()
        }
    }));
    until(|| async { !server.client().lock_info("a").await.holders.is_empty() }).await;
    let second = tokio::spawn(two.acquire("a").lead(|lock| async move { lock.token() }));
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    resign.notify_one();
    let (first, second) = (within(first).await.unwrap().unwrap(), within(second).await.unwrap().unwrap());
    assert!(second > first, "a term has a higher token than the one before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_with_min_hold_that_is_released_stays_unavailable() {
    let server = Server::start().await;
    let client = client(&server);
    let asked = Instant::now();
    let lock = client.acquire("a").holder("one").min_hold(Duration::from_secs(2)).await.unwrap();
    let token = lock.token();
    assert!(within(lock.release()).await.unwrap().was_held());
    let Err(AcquireError::Contended { delay: Some(delay), holders, .. }) = client.acquire("a").await else {
        panic!("granted")
    };
    assert_eq!((delay.holder.as_str(), delay.token, holders.len()), ("one", token, 0));
    assert!(delay.remaining <= Duration::from_secs(2));
    let next = client.acquire("a").wait(LONG).await.unwrap();
    assert!(asked.elapsed() >= Duration::from_secs(2) && next.token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_a_lock_and_a_writer_comes_after_them() {
    let server = Server::start().await;
    let client = client(&server);
    let reader = |label: &str| client.acquire("a").ttl(TTL).shared().holder(label);
    let (one, two) = (reader("one").await.unwrap(), reader("two").await.unwrap());
    let Err(AcquireError::Contended { holders, .. }) = client.acquire("a").await else { panic!("granted") };
    assert!(holders.iter().all(|holder| holder.shared), "{holders:?}");
    assert_eq!(holders.iter().map(|holder| holder.label.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    let info = server.client().lock_info("a").await;
    assert_eq!((info.holder_count, info.newest_token), (2, two.token()));
    for reader in [&one, &two] {
        let check = CheckTokenRequest { lock_name: "a".into(), fencing_token: reader.token() };
        let checked = server.client().check_token(check).await.unwrap().into_inner();
        assert_eq!(checked.status(), check_token_response::Status::Current);
    }
    let writer = tokio::spawn(client.acquire("a").ttl(TTL).wait(LONG).into_future());
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    // Behind the writer, and kept alive by the stream as a reader.
    let late = tokio::spawn(reader("late").wait(LONG).into_future());
    until(|| async { server.client().lock_info("a").await.waiters == 2 }).await;
    tokio::time::sleep(TTL).await;
    assert!(one.is_valid() && two.is_valid(), "each reader is renewed");
    assert!(within(one.release()).await.unwrap().was_held());
    assert_eq!(server.client().lock_info("a").await.waiters, 2, "the writer waits for all readers");
    assert!(within(two.release()).await.unwrap().was_held());
    let writer = within(writer).await.unwrap().unwrap();
    assert!(!server.client().lock_info("a").await.holders[0].mode().as_str_name().contains("SHARED"));
    let token = writer.token();
    assert!(within(writer.release()).await.unwrap().was_held());
    assert!(within(late).await.unwrap().unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_under_one_lock_never_overlap_and_their_tokens_rise() {
    let server = Server::start().await;
    let inside = Arc::new(AtomicU64::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, inside, last) = (client(&server), inside.clone(), last.clone());
            tokio::spawn(async move {
                for _ in 0..40 {
                    let (inside, last) = (inside.clone(), last.clone());
                    let body = move |held: fencepost_client::Held| async move {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "no other task is inside");
                        tokio::task::yield_now().await;
                        assert!(last.swap(held.token(), Ordering::SeqCst) < held.token());
                        inside.fetch_sub(1, Ordering::SeqCst);
                    };
                    client.acquire("a").ttl(Duration::from_secs(20)).wait(LONG).run(body).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        within(task).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acquires_dropped_at_any_moment_leave_no_state() {
    let server = Server::start().await;
    let client = client(&server);
    for round in 0..200_u64 {
        let acquire = client.acquire("a").ttl(Duration::from_secs(600)).wait(LONG).into_future();
        let _ = tokio::time::timeout(Duration::from_micros(round * 17 % 2_500), acquire).await;
    }
    within(client.flush()).await;
    until(|| async {
        let info = server.client().lock_info("a").await;
        info.holders.is_empty() && info.waiters == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_moves_to_another_server_when_its_connection_goes_silent() {
    let server = Server::start().await;
    let (first, freeze) = freezable_link(server.addr).await;
    let (second, _open) = freezable_link(server.addr).await;
    let client =
        Client::builder().server(format!("http://{first}")).server(format!("http://{second}")).build().unwrap();
    let lock = within(async { client.acquire("a").ttl(TTL).await }).await.unwrap();
    freeze.send(true).unwrap();
    let kept_until = Instant::now() + TTL * 3;
    while Instant::now() < kept_until {
        assert!(lock.is_valid(), "{:?}", lock.status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(lock.status(), Status::Held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_holder_learns_of_its_loss_before_the_lock_passes_on() {
    let server = Server::start().await;
    let (via, freeze) = freezable_link(server.addr).await;
    let disconnected = Client::new(format!("http://{via}")).unwrap();
    let lock = within(async { disconnected.acquire("a").ttl(TTL).await }).await.unwrap();
    let other = client(&server);
    let held = lock.held();
    let next = tokio::spawn(async move {
        let lock = other.acquire("a").ttl(TTL).wait(LONG).await.unwrap();
        (held.is_valid(), lock)
    });
    until(|| async { server.client().lock_info("a").await.waiters == 1 }).await;
    freeze.send(true).unwrap();
    let lost = within(lock.lost()).await;
    assert_eq!(lost.cause, LossCause::Silence);
    assert!(!lock.is_valid());
    let (still_valid, next) = within(next).await.unwrap();
    assert!(!still_valid, "the lock was invalid when it passed on");
    assert!(next.token() > lock.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_dropped_when_its_lease_is_revoked() {
    let server = Server::start().await;
    let client = client(&server);
    let (send_token, token) = tokio::sync::oneshot::channel();
    let mut admin = server.admin();
    let operator = tokio::spawn(async move {
        let expected_token = token.await.unwrap();
        let reason = "test".into();
        let force = fencepost_proto::v1::ForceReleaseRequest { lock_name: "a".into(), expected_token, reason };
        admin.force_release(force).await.unwrap();
    });
    let body = |held: fencepost_client::Held| async move {
        send_token.send(held.token()).unwrap();
        std::future::pending::<()>().await;
    };
    let ended = within(client.acquire("a").ttl(Duration::from_secs(30)).run(body)).await;
    assert!(matches!(&ended, Err(RunError::Lost(lost)) if lost.cause == LossCause::Revoked), "{ended:?}");
    operator.await.unwrap();
}

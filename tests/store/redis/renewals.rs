//! Many leases that are due for renewal at once.

use crate::{
    asks::{Asks, acquire, granted},
    notices::RecordingNotices,
    proxy::Proxy,
    redis_server::Redis,
    start_on_url, store_on,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, until},
};
use fencepost::{
    domain::{
        command::{Command, Outcome},
        ids::{AttachmentId, RequestId},
        lease::LeaseEnd,
        limits::BEATS_PER_TTL,
        name::LockName,
        outcome::{AcquireOutcome, Fate, Gone, Grant, RenewOutcome},
    },
    node::{CONNECTIONS_PER_NODE, IN_FLIGHT_MAX},
    store::{
        Answer, Store as _, StoreError,
        redis::{keys, scripts},
    },
};
use fencepost_proto::v1::keep_alive_response::Message as ServerMessage;
use futures_util::{StreamExt, future::join_all};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use uuid::Uuid;

const STREAMS: usize = 8;
const LEASES_PER_STREAM: u32 = 1_000;
/// Long enough to attach all leases before the first is due.
const TTL: Duration = Duration::from_secs(60);
/// Three rounds of the commands in flight on all connections: a round times out in half a second, and two show that the
/// connections are dead.
const UNANSWERED_MAX: usize = 3 * CONNECTIONS_PER_NODE * IN_FLIGHT_MAX;
const _: () = assert!(UNANSWERED_MAX < STREAMS * LEASES_PER_STREAM as usize);

/// All renewals at once would delay other commands beyond their timeout.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_are_sent_a_few_at_a_time() {
    let redis = Redis::start(&[]);
    let source = scripts::source(scripts::flags(scripts::RENEW_KEPT), scripts::PRESENT, None);
    redis.command(&["SCRIPT", "LOAD", &source]);
    let proxy = Arc::new(Proxy::dropping_replies_from(scripts::RENEW_KEPT, redis.port).await);
    let server = start_on_url(proxy.url()).await;
    until(|| async { server.client().acquire(acquire_request("probe", TTL)).await.is_ok() }).await;
    let acquired = (0..STREAMS).map(|number| {
        let client = server.client();
        async move {
            let each = (0..LEASES_PER_STREAM).map(|handle| {
                let mut client = client.clone();
                async move {
                    attachment(
                        handle,
                        &client.acquire_lease(acquire_request(&format!("a/{number}/{handle}"), TTL)).await,
                    )
                }
            });
            let attachments: Vec<_> = futures_util::stream::iter(each).buffered(16).collect().await;
            (client, attachments)
        }
    });
    let (streams, mut open) = (join_all(acquired).await, Vec::new());
    assert_eq!(proxy.seen(), 0);
    // All at once, so that their beats arrive at once.
    for (client, attachments) in streams {
        open.push((Stream::open(client).await, attachments));
    }
    // Half a period later, so that all leases are due at the same beat.
    tokio::time::sleep(TTL / BEATS_PER_TTL / 2).await;
    let tasks: Vec<_> = open
        .into_iter()
        .map(|(mut stream, attachments)| {
            let proxy = proxy.clone();
            tokio::spawn(async move {
                stream.attach(attachments).await;
                // Until the renewals after an answered beat fail.
                while !matches!(stream.next_but_beats(true).await, ServerMessage::AtRisk(_)) || proxy.seen() == 0 {}
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!("{} renewals without an answer", proxy.seen());
    assert!((1..=UNANSWERED_MAX).contains(&proxy.seen()), "{}", proxy.seen());
}

/// One lease for each stream, as most clients have it, and a slow connection to Redis.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_of_many_streams_do_not_wait_for_each_other() {
    const STREAMS: u32 = 120;
    const TTL: Duration = Duration::from_secs(4);
    let redis = Redis::start(&[]);
    let proxy = Proxy::slow(Duration::from_millis(100), redis.port).await;
    let server = start_on_url(proxy.url()).await;
    until(|| async { server.client().acquire(acquire_request("probe", TTL)).await.is_ok() }).await;
    let streams = (0..STREAMS).map(|number| {
        let mut client = server.client();
        tokio::spawn(async move {
            let mut stream = Stream::open(client.clone()).await;
            let lease = client.acquire_lease(acquire_request(&format!("a/{number}"), TTL)).await;
            stream.attach(vec![attachment(0, &lease)]).await;
            let end = Instant::now() + 2 * TTL;
            while Instant::now() < end {
                match stream.next_but_beats(true).await {
                    // A busy machine may answer late once.
                    ServerMessage::Attached(_) | ServerMessage::Renewed(_) | ServerMessage::AtRisk(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
    });
    for stream in streams.collect::<Vec<_>>() {
        stream.await.expect("the lease is kept");
    }
}

/// One script renews several leases. The failure or the effects of one must not affect the others.
#[tokio::test(flavor = "multi_thread")]
async fn each_lease_of_a_batch_gets_its_own_outcome() {
    let redis = Redis::start(&[]);
    let notices = Arc::new(RecordingNotices::default());
    let (store, maintenance) = store_on(&redis.url(), notices.clone()).await;
    let names = (0..).map(|number| LockName::new(format!("a/{number}")).unwrap());
    let names: Vec<_> = names.filter(|name| keys::bucket(name) == 7).take(5).collect();
    let base = keys::base(7);
    let mut held = Vec::new();
    for name in &names {
        let request = RequestId(Uuid::new_v4());
        let grant = granted(store.acquire(name, acquire(request, Duration::from_secs(60), false)).await.unwrap());
        held.push((name, grant, AttachmentId(Uuid::new_v4())));
    }
    let attach = |(name, grant, attachment): &(_, Grant, _)| {
        (*name, Command::Attach { lease_id: grant.lease_id, attempt: 1, attachment: *attachment })
    };
    let attached = store.run_each(held.iter().map(attach).collect()).await;
    let is_renewed = |answer: &Answer| {
        answer.as_ref().is_ok_and(|it| matches!(it.outcome, Outcome::Renew(RenewOutcome::Renewed(_))))
    };
    assert!(attached.iter().all(is_renewed));
    // The first has a foreign key, the second a truncated one, and the third has a waiter and has expired.
    redis.command(&["SET", &format!("{base}l:{}", names[0].as_str()), "?"]);
    let half = "redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]):sub(1, 150))";
    redis.command(&["EVAL", half, "1", &format!("{base}l:{}", names[1].as_str())]);
    let waiter = RequestId(Uuid::new_v4());
    let waiting = acquire(waiter, Duration::from_secs(60), true);
    assert_eq!(store.acquire(&names[2], waiting.clone()).await, Ok(AcquireOutcome::Queued));
    let now = redis.command(&["TIME"]).text();
    let (seconds, _) = now.split_once(' ').unwrap();
    let script = scripts::reader()
        + "local lock = lock_of(redis.call('GET', KEYS[1])) lock.ex = tonumber(ARGV[1]) \
           redis.call('SET', KEYS[1], text_of(lock), 'KEEPTTL')";
    let key = format!("{base}l:{}", names[2].as_str());
    redis.command(&["EVAL", &script, "1", &key, &format!("{seconds}000000")]);
    held[3].2 = AttachmentId(Uuid::new_v4());
    let renew = |(name, grant, attachment): &(_, Grant, _)| (*name, Command::RenewKept(grant.lease_id, *attachment));
    let outcomes = store.run_each(held.iter().map(renew).collect()).await.into_iter();
    let outcomes = outcomes.map(|answer| answer.map(|answer| answer.of().unwrap().outcome)).collect::<Vec<_>>();
    let [first, second, third, fourth, fifth] = outcomes.try_into().unwrap();
    assert!(matches!(first, Err(StoreError::Corrupt(_))), "{first:?}");
    assert!(matches!(second, Err(StoreError::Corrupt(_))), "{second:?}");
    let expired = RenewOutcome::Lost(Gone { fate: Fate::Ended(LeaseEnd::Expired), successor: None });
    assert_eq!(third, Ok(expired));
    assert_eq!(fourth, Ok(RenewOutcome::AttachedElsewhere));
    let Ok(RenewOutcome::Renewed(renewed)) = fifth else { panic!("{fifth:?}") };
    assert_eq!(renewed.token, held[4].1.token);
    until(|| async { notices.is_woken(waiter, 1) }).await;
    let claimed = store.claim(&names[2], waiting.call).await.map(|it| it.outcome);
    assert!(matches!(claimed, Ok(AcquireOutcome::Granted(_))), "{claimed:?}");
    maintenance.abort();
}

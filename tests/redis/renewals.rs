//! Very many leases that are due at once.

use crate::{
    proxy::Proxy,
    redis_server::Redis,
    start_on_url,
    stream::{Stream, attachment},
    support::{Lock, until, wish},
};
use fencepost::{
    domain::limits::BEATS_PER_TTL,
    store::redis::{links::Script, scripts},
};
use fencepost_proto::v1::keep_alive_response::Message as Hear;
use std::time::Duration;
use tokio::time::Instant;

const STREAMS: usize = 4;
const LEASES_PER_STREAM: u32 = 500;
const TTL: Duration = Duration::from_secs(15);
/// Some rounds of those that may be under way at once: a round times out in half a second, and it takes two of them to find the links
/// dead.
const UNANSWERED_MAX: usize = 5 * 64;

/// All renewals at once would keep everybody else's commands waiting for longer than commands wait.
#[tokio::test(flavor = "multi_thread")]
async fn are_renewed_a_few_at_a_time() {
    let redis = Redis::start(&[]);
    let source: &'static str = scripts::source(scripts::RENEW_KEPT, scripts::CLOCK, None).leak();
    redis.command(&["SCRIPT", "LOAD", source]);
    let proxy = Proxy::swallowing_from(Script::new("renew_kept", source).sha(), redis.port).await;
    let server = start_on_url(proxy.url()).await;
    until(|| async { server.client().acquire(wish("probe", TTL)).await.is_ok() }).await;
    let (mut streams, mut open) = (Vec::new(), Vec::new());
    for number in 0..STREAMS {
        let (mut client, mut attachments) = (server.client(), Vec::new());
        for handle in 0..LEASES_PER_STREAM {
            let lease = client.take(wish(&format!("a/{number}/{handle}"), TTL)).await;
            attachments.push(attachment(handle, &lease));
        }
        streams.push((client, attachments));
    }
    assert_eq!(proxy.seen(), 0);
    // All at once, so that their beats come at once.
    for (client, attachments) in streams {
        open.push((Stream::open(client).await, attachments));
    }
    // Half a period later, so that all are due by the same beat.
    tokio::time::sleep(TTL / BEATS_PER_TTL / 2).await;
    let told: Vec<_> = open
        .into_iter()
        .map(|(mut stream, attachments)| {
            tokio::spawn(async move {
                stream.attach(attachments).await;
                // Answered until the renewals that this set off did not come to anything.
                while !matches!(stream.next_but_beats(true).await, Hear::AtRisk(_)) {}
            })
        })
        .collect();
    for told in told {
        told.await.unwrap();
    }
    println!("{} renewals without an answer", proxy.seen());
    assert!((1..=UNANSWERED_MAX).contains(&proxy.seen()), "{}", proxy.seen());
}

/// A lease a stream, as most clients have it, and a way to Redis that is long: one script of theirs is not counted as sixteen.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_streams_do_not_wait_for_each_other() {
    const STREAMS: u32 = 120;
    const TTL: Duration = Duration::from_secs(4);
    let redis = Redis::start(&[]);
    let proxy = Proxy::slow(Duration::from_millis(100), redis.port).await;
    let server = start_on_url(proxy.url()).await;
    until(|| async { server.client().acquire(wish("probe", TTL)).await.is_ok() }).await;
    let streams = (0..STREAMS).map(|number| {
        let mut client = server.client();
        tokio::spawn(async move {
            let mut stream = Stream::open(client.clone()).await;
            let lease = client.take(wish(&format!("a/{number}"), TTL)).await;
            stream.attach(vec![attachment(0, &lease)]).await;
            let end = Instant::now() + 2 * TTL;
            while Instant::now() < end {
                match stream.next_but_beats(true).await {
                    // A machine that does much else may answer late once.
                    Hear::Attached(_) | Hear::Renewed(_) | Hear::AtRisk(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
    });
    for stream in streams.collect::<Vec<_>>() {
        stream.await.expect("the lease is kept");
    }
}

//! Many leases that are due for renewal at once.

use crate::{
    proxy::Proxy,
    redis_server::Redis,
    start_on_url,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, until},
};
use fencepost_proto::v1::keep_alive_response::Message as ServerMessage;
use std::time::Duration;
use tokio::time::Instant;

/// Long enough to begin on a slow connection.
const LONG: Duration = Duration::from_secs(60);

/// One lease for each stream, as most clients have it, and a slow connection to Redis.
#[tokio::test(flavor = "multi_thread")]
async fn renewals_of_many_streams_do_not_wait_for_each_other() {
    const STREAMS: u32 = 120;
    const TTL: Duration = Duration::from_secs(4);
    let redis = Redis::start(&[]);
    let proxy = Proxy::slow(Duration::from_millis(100), redis.port).await;
    let server = start_on_url(proxy.url()).await;
    until(|| async { server.client().acquire(acquire_request("probe", LONG)).await.is_ok() }).await;
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

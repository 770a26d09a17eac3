//! Streams that are opened at a fixed rate, and dropped a moment later.

use crate::Client;
use fencepost_proto::v1::{KeepAliveRequest, WatchRequest};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep},
};

/// Between two bursts of a connection.
const TICK: Duration = Duration::from_millis(20);
/// For how long a stream is open.
const OPEN: Duration = Duration::from_millis(300);

/// Opens so many streams in a second over these connections until the end, whatever becomes of those before: KeepAlive
/// and Watch in turn. Returns how many were opened.
pub(crate) async fn flood(clients: Vec<Client>, per_second: u32, end: Instant) -> u64 {
    let opened = Arc::new(AtomicU64::new(0));
    let share = per_second * u32::try_from(TICK.as_millis()).unwrap() / 1_000 / u32::try_from(clients.len()).unwrap();
    let mut ticks = interval(TICK);
    let mut streams = JoinSet::new();
    while Instant::now() < end {
        ticks.tick().await;
        for client in &clients {
            for number in 0..share {
                streams.spawn(open(client.clone(), number % 2 == 0, opened.clone()));
            }
        }
        while streams.try_join_next().is_some() {}
    }
    opened.load(Ordering::Relaxed)
}

async fn open(mut client: Client, keeps: bool, opened: Arc<AtomicU64>) {
    if keeps {
        let silent = tokio_stream::pending::<KeepAliveRequest>();
        if let Ok(_stream) = client.keep_alive(silent).await {
            opened.fetch_add(1, Ordering::Relaxed);
            sleep(OPEN).await;
        }
    } else if let Ok(_stream) = client.watch(WatchRequest::default()).await {
        opened.fetch_add(1, Ordering::Relaxed);
        sleep(OPEN).await;
    }
}

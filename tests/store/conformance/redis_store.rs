//! The Redis store on a real Redis, with a clock that the test moves.

use crate::{
    bench::{Harness, limits},
    notices::RecordingNotices,
    redis_server::Redis,
};
use fencepost::{node::RedisUrl, store::redis::RedisStore};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Lua that reads the time from a key that the test sets.
const CLOCK: &str = "local now = tonumber(redis.call('GET', 'test:now'))\n";
const START: u64 = 1_800_000_000_000_000;

pub(crate) struct RedisHarness {
    redis: Redis,
    store: Arc<RedisStore>,
    notices: Arc<RecordingNotices>,
    maintenance: JoinHandle<()>,
}

impl Drop for RedisHarness {
    fn drop(&mut self) {
        self.maintenance.abort();
    }
}

impl Harness for RedisHarness {
    type Store = RedisStore;

    async fn start() -> Self {
        let redis = Redis::start(&[]);
        redis.command(&["SET", "test:now", &START.to_string()]);
        let notices = Arc::new(RecordingNotices::default());
        let url = RedisUrl::parse(&redis.url()).unwrap();
        let store = Arc::new(RedisStore::with_clock(&url, &limits(), notices.clone(), CLOCK));
        let maintained = store.clone();
        let maintenance = tokio::spawn(async move { maintained.maintain().await });
        tokio::time::timeout(Duration::from_secs(20), store.up().wait_for(|up| *up)).await.unwrap().unwrap();
        Self { redis, store, notices, maintenance }
    }

    fn store(&self) -> &RedisStore {
        &self.store
    }

    fn notices(&self) -> &Arc<RecordingNotices> {
        &self.notices
    }

    async fn done(&self) {
        self.store.chores_done().await;
    }

    async fn pass(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap();
        self.redis.command(&["INCRBY", "test:now", &micros.to_string()]);
        self.store.poll_now().await;
        self.done().await;
    }
}

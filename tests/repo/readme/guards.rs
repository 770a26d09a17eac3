//! The guard for Redis in `examples/guards`, on a real Redis. (`tests/api/gc_pause` runs that for SQLite.)

use crate::{
    pages::ROOT,
    redis_server::{Answer, Redis},
};
use std::{fs, path::Path};

/// Writes `value` with this token through the guard.
fn write(redis: &Redis, token: u64, grant: &str, value: &str) -> Answer {
    let script = fs::read_to_string(Path::new(ROOT).join("examples/guards/redis.lua")).unwrap();
    redis.command(&["EVAL", &script, "2", "fence", "data", &token.to_string(), grant, value])
}

#[tokio::test]
async fn the_guard_for_redis_refuses_all_but_the_newest_holder() {
    const TOKEN_MAX: u64 = (1 << 53) - 1;
    let redis = Redis::start(&[]);
    let value = || redis.command(&["GET", "data"]).text();
    let ok = Answer::Text("OK".to_owned());
    let stale = |highest: u64| Answer::Error(format!("STALE {highest}"));
    assert_eq!(write(&redis, TOKEN_MAX - 2, "first", "a"), ok, "the first write");
    assert_eq!(write(&redis, TOKEN_MAX - 2, "first", "b"), ok, "the same grant again");
    assert_eq!(write(&redis, TOKEN_MAX - 2, "other", "c"), stale(TOKEN_MAX - 2), "the same token of another grant");
    assert_eq!(value(), "b");
    assert_eq!(write(&redis, TOKEN_MAX, "newest", "d"), ok, "a higher token");
    for (token, grant) in [(TOKEN_MAX - 2, "first"), (TOKEN_MAX - 1, "between")] {
        assert_eq!(write(&redis, token, grant, "e"), stale(TOKEN_MAX), "a lower token");
    }
    assert_eq!(value(), "d");
}

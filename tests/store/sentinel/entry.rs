//! Passwords: of the Sentinels, and of the Redis that they name.

use crate::{Kept, Redis, world::Sentinel};

#[tokio::test]
async fn sentinels_and_their_primary_have_passwords_of_their_own() {
    let redis = Redis::start(&["--requirepass", "node"]);
    let sentinel = Sentinel::start(redis.port, "requirepass watch\nsentinel auth-pass main node", Some("watch")).await;
    let url = |who: &str, more: &str| format!("redis+sentinel://{who}127.0.0.1:{}/main/2{more}", sentinel.port);
    let kept = Kept::to(&url(":node@", "?sentinel_password=watch"));
    let mut up = kept.node.up();
    up.wait_for(|up| *up).await.unwrap();
    kept.count().await.unwrap();
    assert_eq!(redis.info("keyspace", "db2").split(',').next(), Some("keys=1"));
    for (who, more, says) in [
        (":node@", "", "it wants another password than the URL has for Sentinels"),
        (":node@", "?sentinel_password=node", "?sentinel_user=…&sentinel_password=…"),
        (
            ":watch@",
            "?sentinel_password=watch",
            "as the primary of main: Redis does not accept the user or the password",
        ),
        ("", "?sentinel_password=watch", "as the primary of main: Redis wants a password"),
    ] {
        Kept::to(&url(who, more)).goes_down(says).await;
    }
    let other = url(":node@", "?sentinel_password=watch").replace("/main", "/other");
    Kept::to(&other).goes_down("it knows no primary other").await;
    let no_sentinel = format!("redis+sentinel://:node@127.0.0.1:{}/main?sentinel_password=node", redis.port);
    Kept::to(&no_sentinel).goes_down("it does not answer like a Sentinel: is this its port?").await;
}

//! Failovers by real Sentinels.

use crate::{
    Kept, Redis, place,
    support::{Server, acquire_request, until as until_async},
    until,
    world::World,
};
use fencepost::testing::config::StoreUrl;
use fencepost_proto::v1::ReleaseRequest;
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(30);

/// Acquires and releases the lock, as often as it takes, and says its token.
async fn token(server: &Server) -> u64 {
    let mut client = server.client();
    let mut token = None;
    let mut last = "nothing".to_owned();
    let start = Instant::now();
    while token.is_none() {
        match client.acquire(acquire_request("a", TTL)).await {
            Ok(answer) => token = answer.into_inner().lease,
            Err(status) => last = status.message().to_owned(),
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{last}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lease = token.unwrap();
    let release = ReleaseRequest { lock_name: "a".into(), lease_id: lease.lease_id };
    until_async(|| async { server.client().release(release.clone()).await.is_ok() }).await;
    lease.fencing_token
}

/// The server goes on with this primary.
async fn goes_on(server: &Server, primary: &Redis) -> u64 {
    until("the replica is promoted", || primary.replicates(&[("role", "master")])).await;
    let before = primary.calls("evalsha");
    let mut newest = 0;
    // One more than the grant that shows that the server is there: a call may still have been under way elsewhere.
    while primary.calls("evalsha") == before {
        newest = token(server).await;
    }
    newest.max(token(server).await)
}

#[tokio::test]
async fn a_server_goes_on_after_a_failover_by_hand_and_after_a_death() {
    let mut world = World::start().await;
    let url = world.url();
    let server = Server::start_with(|config| config.store = StoreUrl::Redis(vec![url])).await;
    let first = token(&server).await;
    assert!(world.redis[0].calls("evalsha") > 0);
    assert_eq!(world.sentinels[0].command(&["SENTINEL", "FAILOVER", "main"]).text(), "OK");
    let second = goes_on(&server, &world.redis[1]).await;
    assert!(second > first, "{second} {first}");
    // The former primary follows, and Sentinel begins no second failover for twice its failover-timeout.
    until("the former primary follows", || {
        let [old, _] = &world.redis;
        old.replicates(&[("role", "slave"), ("master_link_status", "up")])
    })
    .await;
    world.redis[1].kill();
    let third = goes_on(&server, &world.redis[0]).await;
    assert!(third > second, "{third} {second}");
}

/// Sentinels that are refused by the old primary make the replica another one, and cannot demote the old: it goes on
/// answering this server, as one does that is cut off with it.
#[tokio::test]
async fn an_old_primary_that_is_cut_off_from_the_sentinels_is_left() {
    let world = World::start().await;
    let [old, new] = &world.redis;
    let kept = Kept::to(&world.url());
    kept.moves_to(old).await;
    kept.count().await.unwrap();
    let cut = "ACL SETUSER default -@all";
    old.command(&cut.split(' ').collect::<Vec<_>>());
    until("a majority names the new primary", || world.votes_for(new) >= 2).await;
    let took = kept.moves_to(new).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    until("commands run on the new primary", || new.replicates(&[("role", "master")])).await;
    kept.count().await.unwrap();
    assert_eq!(kept.addresses().unwrap(), [place(new)]);
}

//! Sentinels that lie, are away, or disagree.

use crate::{
    Kept, Redis,
    fake::{Fake, said, url},
    place, until,
};
use fencepost::testing::node::{NodeError, Push};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// A connection is left 2 s after the last question that a majority answered; the rest is for a busy machine.
const LEFT_WITHIN: Duration = Duration::from_millis(4_500);

async fn three(redis: &Redis) -> [Fake; 3] {
    [Fake::naming(redis, 5).await, Fake::naming(redis, 5).await, Fake::naming(redis, 5).await]
}

#[tokio::test]
async fn one_that_lies_and_one_that_is_away_change_nothing() {
    let (redis, other) = (Redis::start(&[]), Redis::start(&[]));
    let [one, two, three] = three(&redis).await;
    two.names(&other, 999);
    // It is the first in the URL, and the first to answer.
    one.is_slow(Duration::from_millis(50));
    three.is_slow(Duration::from_millis(50));
    let kept = Kept::to(&url(&[&two, &one, &three]));
    kept.moves_to(&redis).await;
    let first = kept.node.connection(0).unwrap();
    let asked = three.asked();
    two.tells_of_a_switch();
    until("they were asked again and again", || three.asked() > asked + 3).await;
    assert!(first.closed().is_none(), "{first:?}");
    // The liar hangs now.
    two.is_silent(true);
    let asked = three.asked();
    until("they were asked again and again", || three.asked() > asked + 3).await;
    // And is gone.
    two.ends().await;
    let asked = three.asked();
    until("they were asked again and again", || three.asked() > asked + 3).await;
    assert!(first.closed().is_none(), "{first:?}");
    assert_eq!(other.command(&["CLIENT", "LIST"]).text().lines().count(), 1, "nobody is connected to the other");
    kept.count().await.unwrap();
}

#[tokio::test]
async fn without_a_majority_connections_are_left_after_two_seconds() {
    let redis = Redis::start(&[]);
    let [one, two, three] = three(&redis).await;
    let kept = Kept::to(&url(&[&one, &two, &three]));
    kept.moves_to(&redis).await;
    kept.count().await.unwrap();
    let first = kept.node.connection(0).unwrap();
    let (two, port) = (two.ends().await, three.ends().await);
    let ended = Instant::now();
    // Not at once: a Sentinel may be restarted.
    sleep(Duration::from_millis(600)).await;
    assert!(first.closed().is_none() && kept.count().await.is_ok(), "{first:?}");
    kept.goes_down("no majority of the 3 Sentinels of the URL names a primary of main").await;
    assert!(ended.elapsed() < LEFT_WITHIN, "{:?}", ended.elapsed());
    let Err(NodeError::Unavailable(why)) = kept.count().await else { panic!("it is used") };
    let expected = [said(&one, &redis, 5), format!("127.0.0.1:{two} names no primary: "), "nothing listens".to_owned()];
    assert!(expected.iter().all(|part| why.contains(part)), "{why}");
    // One that comes back is enough.
    let _three = Fake::at(port, &redis, 5).await;
    assert!(kept.moves_to(&redis).await < LEFT_WITHIN);
    kept.count().await.unwrap();
}

#[tokio::test]
async fn a_primary_that_the_sentinels_left_is_left_though_it_answers() {
    let (old, new) = (Redis::start(&[]), Redis::start(&[]));
    let [one, two, three] = three(&old).await;
    let kept = Kept::to(&url(&[&one, &two, &three]));
    kept.moves_to(&old).await;
    let mut pushes = kept.node.subscribe("c");
    assert_eq!(timeout(LEFT_WITHIN, pushes.recv()).await.unwrap(), Some(Push::Resync));
    // The leader of the failover first, then a majority.
    one.names(&new, 6);
    one.is_stale(&old);
    let asked = two.asked();
    until("they were asked again", || two.asked() > asked + 1).await;
    assert_eq!(kept.addresses().unwrap(), [place(&old)]);
    two.names(&new, 6);
    assert!(kept.moves_to(&new).await < LEFT_WITHIN);
    until("nobody is connected to the old one", || old.command(&["CLIENT", "LIST"]).text().lines().count() == 1).await;
    assert_eq!(timeout(LEFT_WITHIN, pushes.recv()).await.unwrap(), Some(Push::Resync));
    until("the listener listens there", || new.command(&["PUBLISH", "c", "here"]).text() == "1").await;
    kept.count().await.unwrap();
    assert_eq!(new.command(&["GET", "{7}n"]).text(), "1");
}

/// While a failover is made known and the third is away, the newer configuration wins.
#[tokio::test]
async fn of_two_that_differ_the_newer_configuration_wins() {
    let (old, new) = (Redis::start(&[]), Redis::start(&[]));
    let [one, two, three] = three(&old).await;
    let kept = Kept::to(&url(&[&one, &two, &three]));
    kept.moves_to(&old).await;
    three.is_silent(true);
    two.names(&new, 6);
    kept.moves_to(&new).await;
    // Equal numbers say nothing.
    one.names(&old, 6);
    kept.goes_down(&said(&one, &old, 6)).await;
}

#[tokio::test]
async fn a_switch_is_followed_as_soon_as_it_is_told() {
    let (old, new) = (Redis::start(&[]), Redis::start(&[]));
    let [one, two, three] = three(&old).await;
    let kept = Kept::to(&url(&[&one, &two, &three]));
    kept.moves_to(&old).await;
    // A busy machine may be slow once.
    let mut fastest = Duration::MAX;
    for (epoch, to) in (6..).zip([&new, &old, &new, &old]) {
        // They were asked a moment ago, and are asked again a second later.
        let asked = three.asked();
        until("they were asked", || three.asked() > asked).await;
        for fake in [&one, &two, &three] {
            fake.names(to, epoch);
        }
        two.tells_of_a_switch();
        fastest = fastest.min(kept.moves_to(to).await);
    }
    assert!(fastest < Duration::from_millis(900), "{fastest:?}");
}

#[tokio::test]
async fn a_replica_is_refused_and_nothing_is_written_to_it() {
    let primary = Redis::start(&[]);
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let [one, two, three] = three(&replica).await;
    let kept = Kept::to(&url(&[&one, &two, &three]));
    let scripts = replica.calls("evalsha");
    kept.goes_down(&format!("the Sentinels name {} as the primary of main: this Redis is a replica", place(&replica)))
        .await;
    assert_eq!(replica.calls("evalsha"), scripts);
    for fake in [&one, &two, &three] {
        fake.names(&primary, 6);
    }
    kept.moves_to(&primary).await;
}

/// Each switch that is told asks for news, and does not keep slower Sentinels from being heard.
#[tokio::test]
async fn one_that_tells_of_switches_without_end_changes_nothing() {
    let redis = Redis::start(&[]);
    let [one, two, three] = three(&redis).await;
    let kept = Kept::to(&url(&[&one, &two, &three]));
    kept.moves_to(&redis).await;
    let first = kept.node.connection(0).unwrap();
    one.is_slow(Duration::from_millis(100));
    three.is_slow(Duration::from_millis(100));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        two.tells_of_a_switch();
        assert!(first.closed().is_none(), "{first:?}");
        sleep(Duration::from_millis(10)).await;
    }
    // Fast ones are not asked without a pause.
    one.is_slow(Duration::ZERO);
    three.is_slow(Duration::ZERO);
    let (start, asked) = (Instant::now(), three.asked());
    while start.elapsed() < Duration::from_secs(1) {
        two.tells_of_a_switch();
        sleep(Duration::from_millis(2)).await;
    }
    let rounds = u128::from(three.asked() - asked);
    assert!(rounds <= start.elapsed().as_millis() / 100 + 2, "{rounds} questions in {:?}", start.elapsed());
}

#[tokio::test]
async fn a_host_may_be_written_in_several_ways() {
    let redis = Redis::start(&[]);
    let [one, two, three] = three(&redis).await;
    one.names_the_host("LocalHost");
    two.names_the_host("localhost");
    let kept = Kept::to(&format!("{}/1", url(&[&one, &two, &three])));
    until("connections are up", || kept.addresses() == Ok(vec![format!("localhost:{}/1", redis.port)])).await;
    let first = kept.node.connection(0).unwrap();
    let asked = three.asked();
    until("they were asked again and again", || three.asked() > asked + 3).await;
    assert!(first.closed().is_none(), "{first:?}");
}

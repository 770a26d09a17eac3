//! Names of stores, and servers of earlier versions, whose keys are others.

use crate::{
    redis_server::{Answer, Redis},
    serving, start_on, start_on_url,
    support::{Lock, Server, acquire_request, assert_refused, until},
};
use fencepost::testing::config::StoreUrl;
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(30);

async fn start_named(url: String, name: &str) -> Server {
    let server = Server::start_with(|config| {
        (config.store, config.store_prefix) = (StoreUrl::Redis(vec![url]), name.to_owned());
    })
    .await;
    serving(&server, true).await;
    server
}

/// With a user that may touch the keys of this store only.
fn url_of(redis: &Redis, name: &str) -> String {
    let rules =
        format!("on >pw +@scripting +@pubsub +@read +@write +@connection +info +time ~{{{name}}}:* &{{{name}}}:*");
    let user: Vec<&str> = ["ACL", "SETUSER", name].into_iter().chain(rules.split(' ')).collect();
    assert_eq!(redis.command(&user).text().trim(), "OK");
    redis.url().replace("redis://", &format!("redis://{name}:pw@"))
}

#[tokio::test]
async fn stores_with_other_names_share_a_redis_and_nothing_else() {
    let redis = Redis::start(&[]);
    let one = start_named(url_of(&redis, "team-a"), "team-a").await;
    let other = start_named(url_of(&redis, "team-b"), "team-b").await;
    let peer = start_named(url_of(&redis, "team-a"), "team-a").await;
    let held = one.client().acquire_lease(acquire_request("a", TTL)).await;
    other.client().acquire_lease(acquire_request("a", TTL)).await;
    let current = peer.client().lock_info("a").await;
    assert_eq!(current.holders[0].fencing_token, held.fencing_token, "servers with one name have one store");
    let Answer::List(keys) = redis.command(&["KEYS", "*"]) else { panic!("KEYS answers a list") };
    let strange: Vec<_> = keys.iter().map(Answer::text).filter(|key| !key.starts_with("{team-")).collect();
    assert_eq!(strange, [""; 0], "no key has another tag");
}

/// What a version before this layout does first at a node, with the mark of a store of its own.
const EARLIER_MARK: &str = "
    local mark = redis.call('GET', 'fp:q:node')
    if mark then
      if mark:sub(1, 16) ~= ARGV[1]:sub(1, 16) then return 'other' end
      if mark == ARGV[1] then return 'marked' end
      return 'list'
    end
    redis.call('SET', 'fp:q:node', ARGV[1])
    return 'marked'";

#[tokio::test]
async fn earlier_versions_and_this_one_do_not_serve_one_redis() {
    let mark = "0123456789abcdef\0\0\0\0\0\x01{\"partitions\":32,\"members\":[\"a:6379\"]}";
    let theirs = Redis::start(&[]);
    assert_eq!(theirs.command(&["EVAL", EARLIER_MARK, "0", mark]).text(), "marked");
    let server = start_on(&theirs).await;
    until(|| async {
        let refused = server.client().acquire(acquire_request("a", TTL)).await;
        let status = assert_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
        status.message().contains("an earlier version") && status.message().contains("fp:q:node")
    })
    .await;
    assert_eq!(theirs.command(&["KEYS", "*"]).text(), "fp:q:node", "nothing of this version is there");

    let ours = Redis::start(&[]);
    let server = start_on_url(ours.url()).await;
    serving(&server, true).await;
    assert_eq!(ours.command(&["EVAL", EARLIER_MARK, "0", mark]).text(), "other");
    server.client().acquire_lease(acquire_request("a", TTL)).await;
}

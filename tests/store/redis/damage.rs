//! Keys of the store that others changed: what they hold is not served, and everything else is.

use crate::{
    redis_server::Redis,
    server_on, serving,
    support::{Lock, Server, acquire_request, until, within},
};
use fencepost::testing::store::quorum::config::bootstrap::PARTITIONS;
use fencepost_proto::v1;
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(600);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Some of them are in each of the partitions.
const LOCKS: usize = 256;

fn names() -> impl Iterator<Item = String> {
    (0..LOCKS).map(|number| format!("a/{number}"))
}

/// Whether the lock is granted or given back, or the refusal's words.
async fn asked(server: &Server, name: &str) -> Result<(), String> {
    let answer = server.client().acquire(acquire_request(name, TTL)).await.map_err(|status| {
        assert!([Code::Unavailable, Code::DataLoss].contains(&status.code()), "{status}");
        status.message().to_owned()
    })?;
    if let Some(lease) = answer.into_inner().lease {
        server.client().release_lease(&lease).await;
    }
    Ok(())
}

/// The locks of a partition that are refused: two of them, for each takes its time. The leader of the partition names
/// the cause. Other servers may only know that it does not reach the store.
async fn refused(servers: &[Server], cause: &str) -> Vec<String> {
    let mut refused = Vec::new();
    for name in names() {
        if asked(&servers[0], &name).await.is_err() {
            refused.push(name);
            if refused.len() == 2 {
                break;
            }
        }
    }
    assert_eq!(refused.len(), 2, "the locks of one partition");
    until(|| async {
        for server in servers {
            if asked(server, &refused[0]).await.is_err_and(|why| why.contains(cause)) {
                return true;
            }
        }
        false
    })
    .await;
    refused
}

async fn is_held_as(server: &Server, held: &v1::Lease) {
    assert_eq!(server.client().holder(&held.lock_name).await.unwrap().fencing_token, held.fencing_token);
}

#[tokio::test]
async fn a_foreign_key_in_one_partition_stops_no_other_and_is_told() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let held = server.client().acquire_lease(acquire_request("held", TTL)).await;
    redis.command(&["SET", "{fp}:q3:c", "not ours"]);
    let refused =
        refused(std::slice::from_ref(&server), "partition 3: the store holds something the server did not write").await;
    // What the server has in memory is written anew.
    redis.command(&["FLUSHALL"]);
    for name in refused {
        until(|| async { asked(&server, &name).await.is_ok() }).await;
    }
    serving(&server, true).await;
    is_held_as(&server, &held).await;
    assert_eq!(server.client().release_lease(&held).await, v1::LeaseEnd::Released);
}

/// As the message says.
#[tokio::test]
async fn a_partition_with_a_foreign_key_is_mended_by_deleting_that_key_and_its_header() {
    let redis = Redis::start(&[]);
    let servers = [server_on(&redis).await, server_on(&redis).await];
    let mut held = Vec::new();
    for name in names() {
        held.push(servers[0].client().acquire_lease(acquire_request(&format!("held/{name}"), TTL)).await);
    }
    let damages: [&[&str]; 3] =
        [&["SET", "{fp}:q3:h", "not ours"], &["SET", "{fp}:q3:c", "not ours"], &["HSET", "{fp}:q3:h", "not", "ours"]];
    for damage in damages {
        redis.command(&["DEL", damage[1]]);
        redis.command(damage);
        let refused = refused(&servers, "delete that key and the key {fp}:qN:h of its partition N").await;
        redis.command(&["DEL", damage[1], "{fp}:q3:h"]);
        for name in refused {
            until(|| async { asked(&servers[1], &name).await.is_ok() }).await;
        }
    }
    for lease in &held {
        is_held_as(&servers[1], lease).await;
    }
}

/// Its servers write it again. If they have ended, tokens go on above the clocks.
#[tokio::test]
async fn a_sequencer_that_somebody_deleted_or_spoilt_comes_back_by_itself_and_no_token_falls() {
    let redis = Redis::start(&[]);
    let servers = [server_on(&redis).await, server_on(&redis).await];
    let held = servers[0].client().acquire_lease(acquire_request("held", TTL)).await;
    // One request: a call without an answer may have got the lock.
    let drawn = async |server: &Server| {
        let mut request = acquire_request("drawn", TTL);
        let lease = loop {
            match within(server.client().acquire(request.clone())).await {
                Ok(answer) => break answer.into_inner().lease.expect("nobody else holds it"),
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
            }
            request.attempt += 1;
            tokio::time::sleep(PAUSE).await;
        };
        until(|| async {
            let release = v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
            server.client().release(release).await.is_ok()
        })
        .await;
        lease.fencing_token
    };
    let mut last = drawn(&servers[0]).await;
    let keys: Vec<String> = (0..PARTITIONS).map(|partition| format!("{{fp}}:q{partition}:s")).collect();
    let is_sound = |key: &String| {
        let text = redis.command(&["GET", key]).text();
        text.parse::<u64>().is_ok_and(|token| token < 1 << 53)
    };
    // To this, or deleted. Those of other partitions come back at another time.
    let spoil = async |to: Option<&str>| {
        until(|| async { keys.iter().all(is_sound) }).await;
        for key in &keys {
            redis.command(&to.map_or_else(|| vec!["DEL", key], |to| vec!["SET", key, to]));
        }
    };
    for to in [None, Some("no number"), Some("9007199254740992"), None] {
        spoil(to).await;
        for server in &servers {
            let next = drawn(server).await;
            assert!(next > last, "{next} after {last}");
            last = next;
        }
        is_held_as(&servers[1], &held).await;
    }
    spoil(None).await;
    drop(servers);
    let server = server_on(&redis).await;
    assert!(drawn(&server).await > last);
    is_held_as(&server, &held).await;
    assert_eq!(server.client().release_lease(&held).await, v1::LeaseEnd::Released);
}

//! Keys of the store that others changed: what they hold is not served, and everything else is.

use crate::{
    redis_server::Redis,
    server_on, serving,
    support::{Lock, Server, acquire_request, until},
};
use fencepost_proto::v1;
use std::time::Duration;
use tonic::Code;

const TTL: Duration = Duration::from_secs(600);
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

#[tokio::test]
async fn a_foreign_key_in_one_partition_stops_no_other_and_is_told() {
    let redis = Redis::start(&[]);
    let server = server_on(&redis).await;
    let held = server.client().acquire_lease(acquire_request("held", TTL)).await;
    redis.command(&["SET", "fp:{q7}:s", "not ours"]);
    let (mut refused, mut told) = (Vec::new(), String::new());
    for name in names() {
        if let Err(why) = asked(&server, &name).await {
            told.clone_from(&why);
            refused.push(name);
            // Each of them takes its time.
            if refused.len() == 2 {
                break;
            }
        }
    }
    assert_eq!(refused.len(), 2, "the locks of one partition");
    assert!(told.contains("something the server did not write"), "{told}");
    // What the server has in memory is written anew.
    redis.command(&["FLUSHALL"]);
    for name in refused {
        until(|| async { asked(&server, &name).await.is_ok() }).await;
    }
    serving(&server, true).await;
    assert_eq!(server.client().holder("held").await.unwrap().fencing_token, held.fencing_token);
    let release = v1::ReleaseRequest { lock_name: "held".into(), lease_id: held.lease_id };
    server.client().release(release).await.unwrap();
}

//! Notices about the leases of a KeepAlive stream, against the stream that reads them.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod support;

use fencepost_schedules::{
    check,
    domain::{command::Command, ids::AttachmentId, limits::Limits, name::Reason},
    locks::{
        Hub, Locks,
        keepalive::{AttachLease, DetachReason, FromClient, ToClient, keep_alive},
    },
    store::{MemoryStore, Store as _},
    task::{block_on, spawn},
    time::SimulatedClock,
};
use std::{collections::BTreeMap, pin::pin, sync::Arc};
use support::{SECOND, acquire_free, name};
use tokio_stream::StreamExt;
use uuid::Uuid;

/// Only one stream in a schedule: async-stream passes items through a thread-local, which all tasks share here.
///
/// Seeded mutants that it finds: the stream is not woken for a notice; it is woken before the notice is stored; it is
/// not registered in the hub.
#[test]
fn a_stream_reports_the_end_of_each_of_its_leases() {
    check(|| {
        block_on(async {
            let hub = Arc::new(Hub::new());
            let limits = Limits::default();
            let store = Arc::new(MemoryStore::with_shards(1, Arc::new(SimulatedClock), &limits, hub.clone()));
            let locks = Arc::new(Locks::new(store.clone(), hub, limits));
            let mut grants = Vec::new();
            for (number, lock) in [(1, "released"), (2, "revoked"), (3, "taken over")] {
                grants.push((
                    number,
                    name(lock),
                    acquire_free(&store, &name(lock), u128::from(number), 30 * SECOND).await,
                ));
            }
            let attach = grants.iter().map(|(handle, name, grant)| AttachLease {
                handle: *handle,
                name: name.clone(),
                lease_id: grant.lease_id,
                attempt: 1,
                release_on_disconnect: false,
            });
            let attach = FromClient::Attach(attach.collect());
            let inbound = tokio_stream::once(Ok::<_, ()>(attach)).chain(tokio_stream::pending());
            let stream = keep_alive(locks.clone(), None, inbound, SECOND);
            let reader = spawn(async move {
                let mut stream = pin!(stream);
                let mut ends = BTreeMap::new();
                while ends.len() < 3 {
                    match stream.next().await.unwrap().unwrap() {
                        ToClient::Lost { handle, .. } => assert_eq!(ends.insert(handle, None), None),
                        ToClient::Detached { handle, reason } => {
                            assert_eq!(ends.insert(handle, Some(reason)), None);
                        }
                        ToClient::Beat { .. } | ToClient::Attached(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
                ends
            });
            let revoker = spawn({
                let (store, token) = (store.clone(), grants[1].2.token);
                let reason = Reason::new("test".into()).unwrap();
                async move {
                    let revoke = Command::ForceRelease { expected: token, reason };
                    store.run(&name("revoked"), revoke).await.unwrap();
                }
            });
            let other_stream = spawn({
                let (store, lease_id) = (store.clone(), grants[2].2.lease_id);
                async move {
                    let attachment = AttachmentId(Uuid::from_u128(7));
                    let attach = Command::Attach { lease_id, attempt: 2, attachment };
                    store.run(&name("taken over"), attach).await.unwrap();
                }
            });
            locks.release(&grants[0].1, grants[0].2.lease_id).await.unwrap();
            let ends = reader.await.unwrap();
            revoker.await.unwrap();
            other_stream.await.unwrap();
            let elsewhere = Some(DetachReason::AttachedElsewhere);
            assert_eq!(ends, BTreeMap::from([(1, None), (2, None), (3, elsewhere)]));
            assert_eq!(locks.busy(), (0, 0));
        });
    });
}

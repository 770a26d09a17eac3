//! Sessions whose server is killed.

use crate::support::{Lock, acquire_request, waiting_request, within};
use crate::{LONG, Replica, TTL, redis_server::Redis, session_stream::Session};
use fencepost_proto::v1::{self, session_response::Message as ServerMessage};

#[tokio::test]
async fn a_retry_on_a_session_with_another_server_keeps_its_place() {
    let redis = Redis::start(&[]);
    let (one, two) = (Replica::start(&redis).await, Replica::start(&redis).await);
    // With its leader, the line of a lock is lost but for the waiters of other servers.
    let lock = two.leads(&redis).await;
    let held = two.client().acquire_lease(acquire_request(&lock, TTL)).await;
    let mut session = Session::open(one.client()).await;
    let wanted = waiting_request(&lock, TTL, LONG);
    session.acquire(1, wanted.clone()).await;
    let first = session.next_message().await;
    assert!(matches!(first, (1, ServerMessage::Waiting(v1::Waiting { ahead: 0 }))), "{first:?}");
    let behind = two.waiter_of(&lock, 2).await;
    one.kill();
    while session.next().await.is_ok() {}
    let mut session = Session::open(two.client()).await;
    session.acquire(1, v1::AcquireRequest { attempt: 2, ..wanted }).await;
    assert!(matches!(session.next_message().await, (1, ServerMessage::Waiting(v1::Waiting { ahead: 0 }))));
    two.client().release_lease(&held).await;
    let lease = session.granted(1).await;
    assert!(!behind.is_finished(), "it came later");
    session.release(2, &lease).await;
    assert_eq!(session.released(2).await, v1::LeaseEnd::Released);
    let next = within(behind).await.unwrap().unwrap().into_inner().lease.unwrap();
    assert!(next.fencing_token > lease.fencing_token);
}

//! A server that is killed after another one granted a lock for it, and before it heard of that: nobody but the leader
//! knows of the lease.

use crate::{
    LONG, Replica, TTL, proxy::Proxy, redis_server::Redis, served, served_lease, support::Lock,
    support::acquire_request, support::until, support::waiting_request, support::within,
};
use fencepost_proto::v1::{self, LeaseEnd};
use std::time::Duration;
use tonic::{Code, Status};

/// A server that never hears of what it is granted by another.
struct Doomed {
    replica: Replica,
    proxy: Proxy,
}

impl Doomed {
    async fn start(redis: &Redis) -> Self {
        let proxy = Proxy::dropping_replies_from("PUBLISH", redis.port).await;
        proxy.open();
        let replica = Replica::start_on(&proxy.url());
        until(|| async { replica.client().get(v1::GetRequest { lock_name: "probe".into() }).await.is_ok() }).await;
        Self { replica, proxy }
    }

    /// From its next message on, it hears nothing.
    fn deafen(&self) {
        self.proxy.drop_replies_from_next();
    }

    /// Kills it once the leader has granted the lock to it. Answers the lease's token.
    async fn kill_when_granted(self, leader: &Replica, lock: &str, above: u64) -> u64 {
        let token = async || leader.client().holder(lock).await.map_or(0, |holder| holder.fencing_token);
        until(|| async { token().await > above }).await;
        assert!(self.proxy.seen() > 0, "it has not heard of the grant");
        self.replica.kill();
        token().await
    }
}

fn unheard(answer: Result<tonic::Response<v1::AcquireResponse>, Status>) {
    let code = answer.unwrap_err().code();
    assert!([Code::Unavailable, Code::Unknown, Code::Internal].contains(&code), "the connection broke: {code:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_gets_the_grant_whose_answer_was_lost_with_the_server() {
    let redis = Redis::start(&[]);
    let one = Replica::start(&redis).await;
    let doomed = Doomed::start(&redis).await;
    let lock = one.leads(&redis).await;
    let request = acquire_request(&lock, TTL);
    doomed.deafen();
    let (mut client, asked) = (doomed.replica.client(), request.clone());
    let lost = tokio::spawn(async move { client.acquire(asked).await });
    let token = doomed.kill_when_granted(&one, &lock, 0).await;
    unheard(within(lost).await.unwrap());
    let (next, last) = (one.waiter_of(&lock, 1).await, one.waiter_of(&lock, 2).await);
    let lease = one.client().acquire_lease(v1::AcquireRequest { attempt: 2, ..request.clone() }).await;
    assert_eq!(lease.fencing_token, token);
    let again = one.client().acquire_lease(v1::AcquireRequest { attempt: 3, ..request }).await;
    assert_eq!((again.fencing_token, &again.lease_id), (token, &lease.lease_id));
    assert!(!next.is_finished() && !last.is_finished());
    one.client().release_lease(&lease).await;
    let second = served_lease(next).await;
    assert!(second.fencing_token > token);
    one.client().release_lease(&second).await;
    assert!(served_lease(last).await.fencing_token > second.fencing_token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_gets_the_hand_off_whose_answer_was_lost_with_the_server() {
    let redis = Redis::start(&[]);
    let (one, two) = (Replica::start(&redis).await, Replica::start(&redis).await);
    let doomed = Doomed::start(&redis).await;
    let lock = one.leads(&redis).await;
    let first = one.client().acquire_lease(acquire_request(&lock, TTL)).await;
    let request = waiting_request(&lock, TTL, LONG);
    let (mut client, asked) = (doomed.replica.client(), request.clone());
    let lost = tokio::spawn(async move { client.acquire(asked).await });
    until(|| async { one.client().lock_info(&lock).await.waiters == 1 }).await;
    let (next, last) = (one.waiter_of(&lock, 2).await, two.waiter_of(&lock, 3).await);
    doomed.deafen();
    one.client().release_lease(&first).await;
    let token = doomed.kill_when_granted(&one, &lock, first.fencing_token).await;
    unheard(within(lost).await.unwrap());
    let lease = two.client().acquire_lease(v1::AcquireRequest { attempt: 2, ..request }).await;
    assert_eq!(lease.fencing_token, token);
    assert!(token > first.fencing_token);
    assert!(!next.is_finished() && !last.is_finished());
    one.client().release_lease(&lease).await;
    let second = served_lease(next).await;
    assert!(second.fencing_token > token);
    one.client().release_lease(&second).await;
    assert!(served_lease(last).await.fencing_token > second.fencing_token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_nobody_heard_of_ends_with_its_ttl() {
    let redis = Redis::start(&[]);
    let one = Replica::start(&redis).await;
    let doomed = Doomed::start(&redis).await;
    let lock = one.leads(&redis).await;
    let first = one.client().acquire_lease(acquire_request(&lock, TTL)).await;
    let request = waiting_request(&lock, Duration::from_secs(4), LONG);
    let (mut client, asked) = (doomed.replica.client(), request.clone());
    let lost = tokio::spawn(async move { client.acquire(asked).await });
    until(|| async { one.client().lock_info(&lock).await.waiters == 1 }).await;
    let next = one.waiter_of(&lock, 2).await;
    doomed.deafen();
    one.client().release_lease(&first).await;
    let token = doomed.kill_when_granted(&one, &lock, first.fencing_token).await;
    unheard(within(lost).await.unwrap());
    let served = served(next).await;
    assert_eq!(served.previous_end(), LeaseEnd::Expired);
    assert!(served.lease.unwrap().fencing_token > token);
    // Too late for what was lost: a new request is to be made.
    let late = one.client().acquire(v1::AcquireRequest { attempt: 2, ..request }).await;
    crate::support::assert_refused(late, Code::Aborted, "REQUEST_ENDED");
}

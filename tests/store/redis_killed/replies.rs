//! A server that is killed after Redis granted a lock for it, and before it heard of that: nobody but Redis knows of
//! the lease.

use crate::{
    LONG, Replica, TTL, proxy::Proxy, redis_server::Redis, served, served_lease, support::Lock,
    support::acquire_request, support::until, support::waiting_request, support::within,
};
use fencepost::{
    domain::name::LockName,
    store::redis::{keys, scripts},
};
use fencepost_proto::v1::{self, LeaseEnd};
use std::time::Duration;
use tonic::{Code, Status};

/// A server whose next grant by this command it never hears of.
struct Doomed {
    replica: Replica,
    proxy: Proxy,
}

impl Doomed {
    async fn start(redis: &Redis, command: &str) -> Self {
        let source = scripts::source(scripts::flags(command), scripts::PRESENT, None);
        // Redis knows it: the first call of it runs.
        redis.command(&["SCRIPT", "LOAD", &source]);
        let proxy = Proxy::dropping_replies_from(command, redis.port).await;
        let replica = Replica::start_on(&proxy.url());
        until(|| async { replica.client().get(v1::GetRequest { lock_name: "probe".into() }).await.is_ok() }).await;
        Self { replica, proxy }
    }

    /// Kills it once Redis has a lease for this request. Answers the lease's token.
    async fn kill_when_granted(self, redis: &Redis, request: &v1::AcquireRequest) -> u64 {
        let name = LockName::new(request.lock_name.clone()).unwrap();
        let key = format!("{}l:{name}", keys::base(keys::bucket(&name)));
        let id = request.request_id.replace('-', "");
        let script = scripts::reader()
            + "local found = redis.call('GET', KEYS[1]); local value = found and lock_of(found)[ARGV[1]] or '' \
               if type(value) == 'number' then return string.format('%.0f', value) end \
               return (value:gsub('.', function(byte) return string.format('%02x', byte:byte()) end))";
        let field = |name: &str| redis.command(&["EVAL", &script, "1", &key, name]).text();
        until(|| async { field("rq") == id }).await;
        let token = field("tk").parse().unwrap();
        assert!(self.proxy.seen() > 0, "it has not heard of the grant");
        self.replica.kill();
        token
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
    let doomed = Doomed::start(&redis, scripts::ACQUIRE).await;
    let request = acquire_request("a", TTL);
    let (mut client, asked) = (doomed.replica.client(), request.clone());
    let lost = tokio::spawn(async move { client.acquire(asked).await });
    let token = doomed.kill_when_granted(&redis, &request).await;
    unheard(within(lost).await.unwrap());
    let (next, last) = (one.waiter(1).await, one.waiter(2).await);
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
    let doomed = Doomed::start(&redis, scripts::CLAIM).await;
    let first = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", TTL, LONG);
    let (mut client, asked) = (doomed.replica.client(), request.clone());
    let lost = tokio::spawn(async move { client.acquire(asked).await });
    until(|| async { one.client().lock_info("a").await.waiters == 1 }).await;
    let (next, last) = (one.waiter(2).await, two.waiter(3).await);
    one.client().release_lease(&first).await;
    let token = doomed.kill_when_granted(&redis, &request).await;
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
    let doomed = Doomed::start(&redis, scripts::CLAIM).await;
    let first = one.client().acquire_lease(acquire_request("a", TTL)).await;
    let request = waiting_request("a", Duration::from_secs(4), LONG);
    let (mut client, asked) = (doomed.replica.client(), request.clone());
    let lost = tokio::spawn(async move { client.acquire(asked).await });
    until(|| async { one.client().lock_info("a").await.waiters == 1 }).await;
    let next = one.waiter(2).await;
    one.client().release_lease(&first).await;
    let token = doomed.kill_when_granted(&redis, &request).await;
    unheard(within(lost).await.unwrap());
    let served = served(next).await;
    assert_eq!(served.previous_end(), LeaseEnd::Expired);
    assert!(served.lease.unwrap().fencing_token > token);
    // Too late for what was lost: a new request is to be made.
    let late = one.client().acquire(v1::AcquireRequest { attempt: 2, ..request }).await;
    crate::support::assert_refused(late, Code::Aborted, "REQUEST_ENDED");
}

//! Three servers on three nodes.
#![allow(dead_code, reason = "the measurement of takeovers does not use all of it")]

use crate::{
    binary::{Process, Server, await_that, fencepost},
    http,
    redis::Redis,
    support::{acquire_request, until, waiting_request, within},
};
use fencepost_client::{Client, raw::v1};
use std::{cmp::Reverse, thread, time::Duration};
use tokio::{task::JoinHandle, time::Instant};

/// What `quorum create` makes.
pub(crate) const PARTITIONS: usize = 4;
/// So many locks are in all partitions, so that each server leads the partition of one of them.
pub(crate) const LOCKS: usize = 24;
/// Longer than anything here takes.
pub(crate) const TTL: Duration = Duration::from_secs(60);
pub(crate) const WAIT: Duration = Duration::from_secs(50);
/// Servers that came together hand over within a moment, two seconds after they came.
const QUIET: Duration = Duration::from_millis(1_500);
/// How often the shares are looked at.
const POLL_PERIOD: Duration = Duration::from_millis(50);

pub(crate) struct Cluster {
    pub(crate) nodes: [Redis; 3],
    pub(crate) store: String,
    pub(crate) servers: Vec<Member>,
}

/// One of the servers.
pub(crate) struct Member {
    pub(crate) server: Server,
    admin: String,
}

impl Member {
    pub(crate) fn start(store: &str) -> Self {
        let server = Server::start_with(&["--store", store, "--admin-listen", "127.0.0.1:0"]);
        let admin = server.admin_address();
        Self { server, admin }
    }

    /// How many partitions it leads, as its metrics say.
    pub(crate) fn leads(&self) -> usize {
        let text = http::get(&self.admin, "/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix("fencepost_partitions_led ")).unwrap();
        line.parse().unwrap()
    }

    /// A client that knows this server only.
    pub(crate) fn client(&self) -> Client {
        client(&[self])
    }
}

impl Cluster {
    /// Each server leads some of the partitions.
    pub(crate) fn start() -> Self {
        let nodes = [(); 3].map(|()| Redis::start(&[]));
        let store = nodes.iter().map(Redis::url).collect::<Vec<_>>().join(",");
        Process::start(&mut fencepost(&["quorum", "create", "--store", &store])).ended().expect(0);
        let servers = (0..3).map(|_| Member::start(&store)).collect();
        let cluster = Self { nodes, store, servers };
        cluster.settled();
        cluster
    }

    /// Waits until each server leads some of the partitions, all are led, and none is handed over any more.
    pub(crate) fn settled(&self) {
        let (mut before, mut since) = (Vec::new(), Instant::now());
        await_that("a share for each server", || {
            let leads: Vec<usize> = self.servers.iter().map(Member::leads).collect();
            let is_led = leads.iter().sum::<usize>() == PARTITIONS && leads.iter().all(|count| *count > 0);
            if !is_led || leads != before {
                (before, since) = (leads, Instant::now());
            }
            thread::sleep(POLL_PERIOD);
            since.elapsed() > QUIET
        });
    }

    /// Starts one more server.
    pub(crate) fn add(&mut self) {
        self.servers.push(Member::start(&self.store));
    }

    /// The server that leads most comes first.
    pub(crate) fn order_by_lead(&mut self) {
        self.servers.sort_by_cached_key(|member| Reverse(member.leads()));
    }

    /// What `quorum status` prints, and its exit code.
    pub(crate) fn status(&self) -> (i32, String) {
        let ended = Process::start(&mut fencepost(&["quorum", "status", "--store", &self.store])).ended();
        (ended.code, ended.out)
    }
}

/// A client that knows these servers, the first of them first.
pub(crate) fn client(members: &[&Member]) -> Client {
    let builder = Client::builder().holder("test").retry_for(Duration::from_secs(20));
    let builder = members.iter().fold(builder, |builder, member| builder.server(member.server.url.clone()));
    builder.build().unwrap()
}

pub(crate) fn name(number: usize) -> String {
    format!("orders/{number}")
}

/// A waiter of a lock: a call through one server.
pub(crate) type Waiter = JoinHandle<v1::Lease>;

/// Waits for a lock through this client's servers.
pub(crate) fn waits(client: &Client, lock: &str) -> Waiter {
    let (calls, request) = (client.calls(), waiting_request(lock, TTL, WAIT));
    tokio::spawn(async move {
        let answer = calls.acquire(request).await.unwrap();
        assert_eq!(answer.outcome(), v1::acquire_response::Outcome::Acquired, "{answer:?}");
        answer.lease.unwrap()
    })
}

/// The lease that a waiter got.
pub(crate) async fn served(waiter: Waiter) -> v1::Lease {
    within(waiter).await.unwrap()
}

/// Acquires a free lock.
pub(crate) async fn acquired(client: &Client, lock: &str) -> v1::Lease {
    acquired_for(client, lock, TTL).await
}

/// The same, with this TTL.
pub(crate) async fn acquired_for(client: &Client, lock: &str, ttl: Duration) -> v1::Lease {
    let answer = within(client.calls().acquire(acquire_request(lock, ttl))).await.unwrap();
    assert_eq!(answer.outcome(), v1::acquire_response::Outcome::Acquired, "{answer:?}");
    answer.lease.unwrap()
}

/// Releases a lease that is held.
pub(crate) async fn release(client: &Client, lease: &v1::Lease) {
    let request = v1::ReleaseRequest { lock_name: lease.lock_name.clone(), lease_id: lease.lease_id.clone() };
    let answer = within(client.calls().release(request)).await.unwrap();
    assert_eq!(answer.end(), v1::LeaseEnd::Released, "{}: {answer:?}", lease.lock_name);
}

/// The lock as a server shows it.
pub(crate) async fn shown(client: &Client, lock: &str) -> v1::LockInfo {
    within(client.calls().get(v1::GetRequest { lock_name: lock.to_owned() })).await.unwrap().lock.unwrap()
}

/// Waits until a server shows so many waiters.
pub(crate) async fn queued(client: &Client, lock: &str, waiters: u32) {
    until(async || shown(client, lock).await.waiters == waiters).await;
}

//! Streams and calls through nginx and HAProxy, for longer than their default idle timeouts.
//!
//! On KeepAlive and Session streams the server sends a beat every 10 s. Silent are calls that wait, a Watch of locks
//! that nobody uses, and, in one direction, a stream whose client is paused.

use crate::{
    proxy::{Cluster, Proxy, replaced},
    session_stream::Session,
    stream::{Stream, attachment},
    support::{Lock, acquire_request, channel, until, waiting_request, within},
};
use fencepost_proto::v1::{
    self, LeaseEnd, acquire_response::Outcome, keep_alive_response::Message, lock_service_client::LockServiceClient,
    session_response::Message as SessionMessage, watch_response::Kind,
};
use std::time::Duration;
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};
use tonic::{Response, Status, Streaming, transport::Channel};

/// Longer than the defaults: 60 s for nginx, and 50 s in the configuration that Debian installs for HAProxy.
const SILENCE: Duration = Duration::from_secs(65);
/// Leases with it end within [`SILENCE`], unless streams keep them.
const TTL: Duration = Duration::from_secs(15);
/// Leases with it outlive [`SILENCE`], although their client is paused.
const LONG_TTL: Duration = Duration::from_secs(300);
/// More calls than nginx (128) and HAProxy (100) allow on a connection by default.
const WAITING: usize = 200;
/// Together more bytes than nginx allows in one request by default, 1 MiB.
const OPERATIONS: u64 = 400;
const METADATA_BYTES: usize = 4_000;

/// A KeepAlive and a Session that keep a lease each.
struct Kept {
    client: LockServiceClient<Channel>,
    leases: [v1::Lease; 2],
    stream: Stream,
    session: Session,
}

impl Kept {
    async fn open(proxy: &Proxy, name: &str, ttl: Duration) -> Self {
        let mut client = LockServiceClient::new(channel(proxy.addr));
        let lease = client.acquire_lease(acquire_request(&format!("{name}/keep-alive"), ttl)).await;
        let mut stream = Stream::open(client.clone()).await;
        stream.attach(vec![attachment(1, &lease)]).await;
        assert!(matches!(stream.next_but_beats(true).await, Message::Attached(_)));
        let mut session = Session::open(client.clone()).await;
        let other = session.acquire_lease(1, acquire_request(&format!("{name}/session"), ttl)).await;
        Self { client, leases: [lease, other], stream, session }
    }

    /// Answers beats for this time. Fails if a lease is lost.
    async fn answer_for(&mut self, span: Duration) {
        let session = async {
            let end = Instant::now() + span;
            while let Ok(message) = tokio::time::timeout_at(end, self.session.next_message()).await {
                assert!(matches!(message, (0, SessionMessage::Renewed(_))), "{message:?}");
            }
        };
        let (renewed, ()) = tokio::join!(self.stream.answer_for(span, |_| true), session);
        assert!(renewed > 0);
    }

    /// Checks that both leases are held since the beginning, and that both streams work.
    async fn assert_alive(mut self, name: &str) {
        for lease in &self.leases {
            let holder = self.client.holder(&lease.lock_name).await.expect(name);
            assert_eq!(holder.fencing_token, lease.fencing_token, "{name}");
        }
        let second = self.client.acquire_lease(acquire_request(&format!("{name}/second"), LONG_TTL)).await;
        self.stream.attach(vec![attachment(2, &second)]).await;
        while !matches!(self.stream.next_but_beats(true).await, Message::Attached(_)) {}
        self.session.acquire(2, acquire_request(&format!("{name}/third"), LONG_TTL)).await;
        self.session.granted_at_last(2).await;
    }
}

/// A call that waits for [`SILENCE`], and a Watch without events.
struct Silent {
    client: LockServiceClient<Channel>,
    waiting: JoinHandle<Result<Response<v1::AcquireResponse>, Status>>,
    watch: Streaming<v1::WatchResponse>,
    name: &'static str,
}

impl Silent {
    async fn start(proxy: &Proxy, name: &'static str) -> Self {
        let mut client = LockServiceClient::new(channel(proxy.addr));
        let lock = format!("{name}/held");
        client.acquire_lease(acquire_request(&lock, LONG_TTL)).await;
        let mut waiter = client.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(waiting_request(&lock, LONG_TTL, SILENCE)).await });
        let request = v1::WatchRequest { prefix: format!("{name}/watched") };
        let mut watch = within(client.watch(request)).await.unwrap().into_inner();
        assert_eq!(within(watch.message()).await.unwrap().unwrap().kind(), Kind::Started);
        Self { client, waiting, watch, name }
    }

    async fn assert_answered(mut self) {
        let answer = timeout(SILENCE, self.waiting).await.expect("the wait ends").unwrap();
        assert_eq!(answer.expect(self.name).into_inner().outcome(), Outcome::TimedOut, "{}", self.name);
        self.client.acquire_lease(acquire_request(&format!("{}/watched", self.name), LONG_TTL)).await;
        assert_eq!(next_event(&mut self.watch).await.unwrap().kind(), Kind::Granted, "{}", self.name);
    }

    /// Returns the Watch.
    async fn assert_cut(self) -> Streaming<v1::WatchResponse> {
        let answer = timeout(SILENCE, self.waiting).await.expect("the wait ends").unwrap();
        assert!(answer.is_err(), "{}: {answer:?}", self.name);
        self.watch
    }
}

/// The next event, but for those that say that some were missed: the servers have just divided the locks among them.
async fn next_event(watch: &mut Streaming<v1::WatchResponse>) -> Result<v1::WatchResponse, Status> {
    loop {
        let event = within(watch.message()).await?.expect("an event");
        if event.kind() != Kind::Missed {
            return Ok(event);
        }
    }
}

/// nginx as it is without our timeouts.
fn nginx_defaults(text: &str) -> String {
    let ours = ["client_body_timeout", "grpc_read_timeout", "grpc_send_timeout"];
    let is_ours = |line: &&str| ours.iter().any(|name| line.trim_start().starts_with(name));
    assert_eq!(text.lines().filter(is_ours).count(), ours.len());
    text.lines().filter(|line| !is_ours(line)).map(|line| format!("{line}\n")).collect()
}

/// HAProxy with the timeouts of the configuration that Debian installs.
fn haproxy_defaults(text: &str) -> String {
    replaced(&replaced(text, "timeout client 25h", "timeout client 50s"), "timeout server 25h", "timeout server 50s")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_streams_and_waiting_calls_outlive_the_default_timeouts_of_proxies() {
    let cluster = Cluster::start();
    let same = |text: &str| text.to_owned();
    let (nginx, haproxy) = (Proxy::nginx(&cluster, same), Proxy::haproxy(&cluster, same));
    let (plain_nginx, plain_haproxy) =
        (Proxy::nginx(&cluster, nginx_defaults), Proxy::haproxy(&cluster, haproxy_defaults));
    let paused = [
        (Kept::open(&nginx, "paused nginx", LONG_TTL).await, "paused nginx"),
        (Kept::open(&haproxy, "paused haproxy", LONG_TTL).await, "paused haproxy"),
    ];
    let silent = [Silent::start(&nginx, "nginx").await, Silent::start(&haproxy, "haproxy").await];
    let cut = [Silent::start(&plain_nginx, "plain nginx").await, Silent::start(&plain_haproxy, "plain haproxy").await];
    let mut kept = [Kept::open(&nginx, "nginx", TTL).await, Kept::open(&haproxy, "haproxy", TTL).await];
    let [first, second] = &mut kept;
    tokio::join!(first.answer_for(SILENCE), second.answer_for(SILENCE));
    for (kept, name) in kept.into_iter().zip(["nginx", "haproxy"]) {
        kept.assert_alive(name).await;
    }
    for (kept, name) in paused {
        kept.assert_alive(name).await;
    }
    for silent in silent {
        silent.assert_answered().await;
    }
    // The same, where the defaults are: this is what our settings are for.
    let [nginx, haproxy] = cut;
    // The pings of the server are enough for nginx, once a stream has begun.
    nginx.assert_cut().await;
    let mut watch = haproxy.assert_cut().await;
    assert!(next_event(&mut watch).await.is_err(), "the Watch continues");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiting_calls_of_a_connection_and_long_streams_pass() {
    let cluster = Cluster::start();
    let same = |text: &str| text.to_owned();
    for (proxy, name) in [(Proxy::nginx(&cluster, same), "nginx"), (Proxy::haproxy(&cluster, same), "haproxy")] {
        let mut client = LockServiceClient::new(channel(proxy.addr));
        let lease = client.acquire_lease(acquire_request(name, LONG_TTL)).await;
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| {
                let mut client = client.clone();
                let request = waiting_request(name, LONG_TTL, LONG_TTL);
                tokio::spawn(async move { client.acquire(request).await })
            })
            .collect();
        until(async || client.clone().lock_info(name).await.waiters == u32::try_from(WAITING).unwrap()).await;
        assert_eq!(client.release_lease(&lease).await, LeaseEnd::Released);
        waiting.iter().for_each(JoinHandle::abort);

        let mut session = Session::open(client.clone()).await;
        let lock = format!("{name}/long");
        let held = client.acquire_lease(acquire_request(&lock, LONG_TTL)).await;
        for operation in 1..=OPERATIONS {
            let metadata = [("m".to_owned(), "x".repeat(METADATA_BYTES))].into();
            session.acquire(operation, v1::AcquireRequest { metadata, ..acquire_request(&lock, LONG_TTL) }).await;
            session.answer().await;
        }
        assert_eq!(within(client.release_lease(&held)).await, LeaseEnd::Released);
    }
}

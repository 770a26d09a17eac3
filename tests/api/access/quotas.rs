//! Quotas: how much of a server one caller may use.

use crate::{
    operations::{ALL, Operation, carry_out},
    support::{acquire_request, assert_refused, until, waiting_request, within},
    world::{Credentials, Files, Shown, World, rule, token},
};
use fencepost_proto::v1::{
    self, lock_service_client::LockServiceClient, session_request::Message as Ask, session_response::Message as Answer,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

const LONG: Duration = Duration::from_secs(600);

/// A file for two identities that may do everything, the first of which has this quota.
fn with_quota(lines: &str) -> String {
    let all = ["acquire", "read", "check", "force"];
    let rules = token("small", "small") + &token("other", "other") + &rule("*", &all, &[""]);
    format!("mode = \"enforce\"\n{rules}\n[[quota]]\nwho = [\"small\"]\n{lines}\n")
}

async fn start(files: &Files, lines: &str) -> World {
    files.rules(&with_quota(lines));
    World::start(files).await
}

fn small(world: &World) -> LockServiceClient<Shown> {
    world.locks(&Credentials::bearer("small"))
}

fn other(world: &World) -> LockServiceClient<Shown> {
    world.locks(&Credentials::bearer("other"))
}

/// Whether this is above the quota, by this limit.
fn is_over<T: std::fmt::Debug>(result: Result<T, Status>, limit: &str) -> Duration {
    let status = assert_refused(result, Code::ResourceExhausted, "QUOTA_EXCEEDED");
    assert_eq!(status.get_details_error_info().unwrap().metadata["limit"], limit);
    assert_eq!(status.get_details_quota_failure().unwrap().violations[0].quota_id, limit);
    status.get_details_retry_info().unwrap().retry_delay.unwrap()
}

async fn acquire(locks: &mut LockServiceClient<Shown>, name: &str) -> Result<v1::Lease, Status> {
    let answer = within(locks.acquire(acquire_request(name, LONG))).await?;
    Ok(answer.into_inner().lease.unwrap())
}

/// A session that acquires.
struct Session {
    requests: mpsc::Sender<v1::SessionRequest>,
    answers: Streaming<v1::SessionResponse>,
    operations: u64,
}

impl Session {
    async fn open(locks: &mut LockServiceClient<Shown>) -> Result<Self, Status> {
        let (requests, outbound) = mpsc::channel(8);
        let answers = within(locks.session(ReceiverStream::new(outbound))).await?.into_inner();
        Ok(Self { requests, answers, operations: 0 })
    }

    /// The answer to an operation.
    async fn ask(&mut self, message: Ask) -> Answer {
        self.operations += 1;
        let request = v1::SessionRequest { operation: self.operations, message: Some(message) };
        self.requests.send(request).await.unwrap();
        within(async {
            loop {
                let answer = self.answers.message().await.unwrap().unwrap();
                if answer.operation == self.operations {
                    return answer.message.unwrap();
                }
            }
        })
        .await
    }

    async fn acquire(&mut self, name: &str) -> Answer {
        let handle = u32::try_from(self.operations).unwrap() + 1;
        let request = Some(acquire_request(name, LONG));
        self.ask(Ask::Acquire(v1::SessionAcquire { request, handle, ..v1::SessionAcquire::default() })).await
    }
}

#[tokio::test]
async fn acquires_come_at_the_rate_of_an_identity() {
    let files = Files::new();
    let world = start(&files, "acquires_per_second = 2\nburst = 3").await;
    let mut locks = small(&world);
    let mut leases = Vec::new();
    for number in 0..3 {
        leases.push(acquire(&mut locks, &format!("a/{number}")).await.unwrap());
    }
    let room_in = is_over(acquire(&mut locks, "a/3").await, "acquires_per_second");
    assert!(room_in > Duration::from_millis(200) && room_in <= Duration::from_millis(500), "{room_in:?}");
    // It counts by identity, and not by connection.
    is_over(acquire(&mut small(&world), "a/3").await, "acquires_per_second");
    for number in 0..10 {
        acquire(&mut other(&world), &format!("b/{number}")).await.unwrap();
    }
    // What keeps a lease, or gives it back, is never refused.
    for lease in &leases {
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let renew = v1::RenewRequest { lock_name: lock_name.clone(), lease_id: lease_id.clone(), ttl: None };
        within(locks.renew(renew)).await.unwrap();
        within(locks.release(v1::ReleaseRequest { lock_name, lease_id })).await.unwrap();
    }
    let mut session = Session::open(&mut locks).await.unwrap();
    for _ in 0..4 {
        session.acquire("a/4").await;
    }
    let Answer::Error(error) = session.acquire("a/5").await else { panic!("a session is no way around it") };
    assert_eq!(error.code, i32::from(Code::ResourceExhausted));
    until(async || acquire(&mut locks.clone(), "a/6").await.is_ok()).await;
    assert!(
        world.metric("fencepost_quota_exceeded_total", "caller=\"small\",limit=\"acquires_per_second\"").await >= 3.0
    );
    assert_eq!(world.metric("fencepost_quota_exceeded_total", "caller=\"other\"").await, 0.0);
}

#[tokio::test]
async fn only_so_many_acquires_of_an_identity_wait() {
    let files = Files::new();
    let world = start(&files, "waits = 2").await;
    acquire(&mut other(&world), "a/1").await.unwrap();
    let wait = |locks: LockServiceClient<Shown>| {
        let mut locks = locks;
        tokio::spawn(async move { locks.acquire(waiting_request("a/1", LONG, LONG)).await })
    };
    let (one, two) = (wait(small(&world)), wait(small(&world)));
    let used = async |limit: &str| world.metric("fencepost_quota_used", &format!("limit=\"{limit}\"")).await;
    until(async || used("waits").await == 2.0).await;
    is_over(within(small(&world).acquire(waiting_request("a/1", LONG, LONG))).await, "waits");
    let mut session = Session::open(&mut small(&world)).await.unwrap();
    let request = Some(waiting_request("a/1", LONG, LONG));
    let waiting = v1::SessionAcquire { request, handle: 1, ..v1::SessionAcquire::default() };
    assert!(matches!(session.ask(Ask::Acquire(waiting)).await, Answer::Error(_)));
    // One that does not wait is none of them, and others have as much as they like.
    within(small(&world).acquire(acquire_request("a/1", LONG))).await.unwrap();
    let third = wait(other(&world));
    one.abort();
    until(async || used("waits").await == 1.0).await;
    let fourth = wait(small(&world));
    until(async || used("waits").await == 2.0).await;
    assert!([two, third, fourth].iter().all(|waiting| !waiting.is_finished()));
}

#[tokio::test]
async fn an_identity_with_all_its_leases_gets_no_other_and_loses_none() {
    let files = Files::new();
    let world = start(&files, "leases = 2").await;
    let mut session = Session::open(&mut small(&world)).await.unwrap();
    let Answer::Acquire(first) = session.acquire("a/1").await else { panic!("there is room") };
    assert!(matches!(session.acquire("a/2").await, Answer::Acquire(_)));
    assert!(matches!(session.acquire("a/3").await, Answer::Error(_)));
    is_over(acquire(&mut small(&world), "a/3").await, "leases");
    assert_eq!(world.metric("fencepost_quota_used", "limit=\"leases\"").await, 2.0);
    let lease = first.lease.unwrap();
    let release = v1::ReleaseRequest { lock_name: lease.lock_name, lease_id: lease.lease_id };
    assert!(matches!(session.ask(Ask::Release(release)).await, Answer::Release(_)));
    assert!(matches!(session.acquire("a/3").await, Answer::Acquire(_)));
    // Leases that another identity keeps are its own, and those of a stream that is over are nobody's.
    let mut others = Session::open(&mut other(&world)).await.unwrap();
    for number in 0..4 {
        assert!(matches!(others.acquire(&format!("b/{number}")).await, Answer::Acquire(_)));
    }
    drop(session);
    until(async || acquire(&mut small(&world), "a/4").await.is_ok()).await;
}

#[tokio::test]
async fn only_so_many_streams_of_an_identity_are_open() {
    let files = Files::new();
    let world = start(&files, "streams = 2").await;
    let mut locks = small(&world);
    let session = Session::open(&mut locks).await.unwrap();
    let watch = within(locks.watch(v1::WatchRequest { prefix: "a/".into() })).await.unwrap();
    is_over(Session::open(&mut locks).await.map(drop), "streams");
    is_over(within(locks.keep_alive(tokio_stream::pending())).await.map(drop), "streams");
    is_over(within(locks.watch(v1::WatchRequest::default())).await.map(drop), "streams");
    is_over(within(locks.observe(v1::ObserveRequest { lock_name: "a/1".into() })).await.map(drop), "streams");
    drop(watch);
    until(async || within(locks.clone().observe(v1::ObserveRequest { lock_name: "a/1".into() })).await.is_ok()).await;
    drop(session);
    until(async || Session::open(&mut locks.clone()).await.is_ok()).await;
}

#[tokio::test]
async fn a_connection_too_many_keeps_leases_and_takes_no_new_ones() {
    let files = Files::new();
    let world = start(&files, "connections = 1").await;
    let mut first = small(&world);
    let lease = acquire(&mut first, "a/1").await.unwrap();
    let mut second = small(&world);
    for operation in ALL {
        let asked = carry_out(&world, &Credentials::bearer("small"), operation, "a/2").await;
        let reads = [Operation::Get, Operation::List, Operation::Watch, Operation::Observe, Operation::ListWaiters];
        let acquires = [Operation::Acquire, Operation::WaitingAcquire, Operation::AcquireOnSession];
        if reads.contains(&operation) || acquires.contains(&operation) {
            is_over(asked, "connections");
        } else if let Err(status) = asked {
            assert_ne!(status.code(), Code::ResourceExhausted, "{operation:?} is never refused");
        }
    }
    let (lock_name, lease_id) = (lease.lock_name, lease.lease_id);
    within(second.renew(v1::RenewRequest { lock_name, lease_id, ttl: None })).await.unwrap();
    acquire(&mut first, "a/3").await.unwrap();
    // The second has the place of the first once that is closed.
    drop(first);
    until(async || acquire(&mut second.clone(), "a/4").await.is_ok()).await;
    assert_eq!(world.metric("fencepost_quota_used", "limit=\"connections\"").await, 1.0);
}

#[tokio::test]
async fn an_observed_quota_refuses_nothing_and_counts() {
    let files = Files::new();
    let limits = "acquires_per_second = 1\nwaits = 1\nleases = 1\nstreams = 1\nconnections = 1\nmode = \"observe\"";
    let world = start(&files, limits).await;
    let (mut one, mut two) = (small(&world), small(&world));
    for number in 0..4 {
        acquire(&mut one, &format!("a/{number}")).await.unwrap();
        acquire(&mut two, &format!("b/{number}")).await.unwrap();
    }
    let _sessions = [Session::open(&mut one).await.unwrap(), Session::open(&mut one).await.unwrap()];
    for (limit, times) in [("acquires_per_second", 7.0), ("connections", 1.0), ("streams", 1.0)] {
        let labels = format!("caller=\"small\",limit=\"{limit}\",mode=\"observe\"");
        assert_eq!(world.metric("fencepost_quota_exceeded_total", &labels).await, times, "{limit}");
    }
    assert_eq!(world.metric("fencepost_quota_exceeded_total", "mode=\"enforce\"").await, 0.0);
}

#[tokio::test]
async fn callers_without_an_identity_have_the_quota_of_their_address() {
    let files = Files::new();
    let quota = "\n[[quota]]\neach_address = true\nacquires_per_second = 1\nburst = 2\n";
    files.rules(&("mode = \"open\"\n".to_owned() + &token("known", "known") + quota));
    let world = World::start(&files).await;
    let mut anybody = world.locks(&Credentials(None));
    acquire(&mut anybody, "a/1").await.unwrap();
    // Credentials that are nobody's are no way around it.
    acquire(&mut world.locks(&Credentials::bearer("guessed")), "a/2").await.unwrap();
    is_over(acquire(&mut anybody, "a/3").await, "acquires_per_second");
    let mut known = world.locks(&Credentials::bearer("known"));
    for number in 4..9 {
        acquire(&mut known, &format!("a/{number}")).await.unwrap();
    }
    let lock = within(known.get(v1::GetRequest { lock_name: "a/4".into() })).await.unwrap().into_inner().lock.unwrap();
    assert_eq!(lock.holders[0].identity, "known");
    assert_eq!(world.metric("fencepost_access_denials_total", "").await, 0.0, "nobody is denied, and nothing counted");
}

#[tokio::test]
async fn a_changed_quota_counts_at_once() {
    let files = Files::new();
    files.rules(&with_quota("leases = 1").replace("who = [\"small\"]", "who = [\"nobody\"]"));
    let world = World::start(&files).await;
    let mut session = Session::open(&mut small(&world)).await.unwrap();
    assert!(matches!(session.acquire("a/1").await, Answer::Acquire(_)));
    files.rules(&with_quota("leases = 2"));
    until(async || world.metric("fencepost_access_reloads_total", "ok").await == 1.0).await;
    // The session was opened before its client had a quota.
    assert!(matches!(session.acquire("a/2").await, Answer::Acquire(_)));
    assert!(matches!(session.acquire("a/3").await, Answer::Error(_)));
    is_over(acquire(&mut small(&world), "a/3").await, "leases");
}

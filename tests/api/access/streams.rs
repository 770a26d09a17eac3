//! Streams, and calls that wait, whose credentials expire or whose rules change.

use crate::{
    support::{acquire_request, assert_refused, until, waiting_request, within},
    world::{Credentials, Files, ISSUER, Shown, World, claims, rule, token},
};
use fencepost_proto::v1::{
    self, LeaseEnd, keep_alive_request::Message as Keep, keep_alive_response::Message as Kept,
    lock_service_client::LockServiceClient, session_request::Message as Ask, session_response::Message as Answer,
};
use std::time::Duration;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

const ENFORCE: &str = "mode = \"enforce\"\n";
const ALL: [&str; 3] = ["acquire", "read", "check"];
/// Of leases that must not end while a test runs.
const LONG: Duration = Duration::from_secs(600);

type Locks = LockServiceClient<Shown>;

/// A file with a token for an operator, who may see all locks, and these entries.
fn with_operator(entries: &str) -> String {
    ENFORCE.to_owned() + &token("operator", "operator") + &rule("operator", &ALL, &[""]) + entries
}

struct Stream {
    requests: mpsc::Sender<v1::KeepAliveRequest>,
    answers: Streaming<v1::KeepAliveResponse>,
}

impl Stream {
    /// Keeps this lease.
    async fn keep(locks: &mut Locks, lease: &v1::Lease, release_on_disconnect: bool) -> Self {
        let (requests, outbound) = mpsc::channel(64);
        let answers = within(locks.keep_alive(ReceiverStream::new(outbound))).await.unwrap().into_inner();
        let (lock_name, lease_id) = (lease.lock_name.clone(), lease.lease_id.clone());
        let lease = v1::LeaseAttachment { handle: 1, lock_name, lease_id, attempt: 1, release_on_disconnect };
        let it = Self { requests, answers };
        it.send(Keep::Attach(v1::AttachLeases { leases: vec![lease] })).await;
        it
    }

    async fn send(&self, message: Keep) {
        let _ = self.requests.send(v1::KeepAliveRequest { message: Some(message) }).await;
    }

    /// Answers beats, until there is a message that fits, or an error.
    async fn until(&mut self, fits: impl Fn(&Kept) -> bool) -> Result<(), Status> {
        within(async {
            loop {
                match self.answers.message().await?.unwrap().message.unwrap() {
                    Kept::Beat(beat) => self.send(Keep::Answer(v1::BeatAnswer { beat: beat.beat })).await,
                    message if fits(&message) => return Ok(()),
                    _ => {}
                }
            }
        })
        .await
    }
}

#[tokio::test]
async fn streams_end_when_their_token_expires_and_their_leases_live_on() {
    let files = Files::new();
    files.rules(&with_operator(&(ISSUER.to_owned() + &rule("k8s:app", &ALL, &["a/"]))));
    let world = World::start(&files).await;
    let short = |seconds| Credentials::bearer(&files.issuer.token("ES256", &claims("app", seconds)));
    let mut locks = world.locks(&short(4));
    let begun = Instant::now();
    let lease = within(locks.acquire(acquire_request("a/1", LONG))).await.unwrap().into_inner().lease.unwrap();
    let mut stream = Stream::keep(&mut locks, &lease, true).await;
    let mut watch = within(locks.watch(v1::WatchRequest { prefix: "a/".into() })).await.unwrap().into_inner();
    let (asking, outbound) = mpsc::channel(8);
    let mut session = within(locks.session(ReceiverStream::new(outbound))).await.unwrap().into_inner();
    let acquire =
        v1::SessionAcquire { request: Some(acquire_request("a/2", LONG)), handle: 1, release_on_disconnect: true };
    asking.send(v1::SessionRequest { operation: 1, message: Some(Ask::Acquire(acquire)) }).await.unwrap();
    let waiting = within(locks.acquire(waiting_request("a/1", LONG, LONG)));

    let keeping = async { stream.until(|_| false).await };
    let watching = async {
        loop {
            if let Err(status) = watch.message().await {
                break Err::<(), _>(status);
            }
        }
    };
    let operating = async {
        loop {
            if let Err(status) = session.message().await {
                break Err::<(), _>(status);
            }
        }
    };
    let all = Box::pin(async { tokio::join!(keeping, watching, operating, waiting) });
    let (kept, watched, operated, waited) = within(all).await;
    for ended in [kept, watched, operated, waited.map(drop)] {
        assert_refused(ended, Code::Unauthenticated, "CREDENTIALS_EXPIRED");
    }
    let lasted = begun.elapsed();
    assert!(lasted > Duration::from_secs(2) && lasted < Duration::from_secs(20), "{lasted:?}");
    let refused = within(locks.renew(v1::RenewRequest {
        lock_name: lease.lock_name.clone(),
        lease_id: lease.lease_id.clone(),
        ttl: None,
    }))
    .await;
    assert_refused(refused, Code::Unauthenticated, "CREDENTIALS_EXPIRED");

    // The server ended the streams, so nothing is revoked. With new credentials the lease is kept again.
    let mut operator = world.locks(&Credentials::bearer("operator"));
    for name in ["a/1", "a/2"] {
        assert_eq!(holders(&mut operator, name).await, 1, "{name}");
    }
    let mut locks = world.locks(&short(600));
    let mut stream = Stream::keep(&mut locks, &lease, false).await;
    stream.until(|message| matches!(message, Kept::Attached(_))).await.unwrap();
    let (lock_name, lease_id) = (lease.lock_name, lease.lease_id);
    let released = within(locks.release(v1::ReleaseRequest { lock_name, lease_id })).await.unwrap().into_inner();
    assert_eq!(released.end(), LeaseEnd::Released);
}

async fn holders(locks: &mut Locks, name: &str) -> usize {
    let got = within(locks.get(v1::GetRequest { lock_name: name.to_owned() })).await.unwrap();
    got.into_inner().lock.unwrap().holders.len()
}

#[tokio::test]
async fn an_identity_that_is_removed_renews_nothing_more() {
    const TTL: Duration = Duration::from_secs(15);
    let files = Files::new();
    let rules = rule("app", &ALL, &["a/"]);
    files.rules(&with_operator(&(token("app", "app") + &rules)));
    let world = World::start(&files).await;
    let mut locks = world.locks(&Credentials::bearer("app"));
    let lease = within(locks.acquire(acquire_request("a/1", TTL))).await.unwrap().into_inner().lease.unwrap();
    let mut stream = Stream::keep(&mut locks, &lease, true).await;
    stream.until(|message| matches!(message, Kept::Renewed(_))).await.unwrap();

    files.rules(&with_operator(&rules));
    let ended = stream.until(|_| false).await;
    assert_refused(ended, Code::Unauthenticated, "CREDENTIALS_INVALID");
    let mut operator = world.locks(&Credentials::bearer("operator"));
    assert_eq!(holders(&mut operator, "a/1").await, 1, "nothing is revoked");
    until(async || holders(&mut operator.clone(), "a/1").await == 0).await;
}

#[tokio::test]
async fn a_lease_without_a_rule_is_kept_again_once_the_rule_is_back() {
    let files = Files::new();
    let file = |locks: &[&str]| with_operator(&(token("app", "app") + &rule("app", &ALL, locks)));
    files.rules(&file(&["a/", "b/"]));
    let world = World::start(&files).await;
    let mut locks = world.locks(&Credentials::bearer("app"));
    let lease = within(locks.acquire(acquire_request("a/1", Duration::from_secs(60)))).await.unwrap();
    let mut stream = Stream::keep(&mut locks, &lease.into_inner().lease.unwrap(), false).await;
    stream.until(|message| matches!(message, Kept::Attached(_))).await.unwrap();
    let mut watch = within(locks.watch(v1::WatchRequest { prefix: "a/".into() })).await.unwrap().into_inner();
    let waiting = tokio::spawn({
        let mut locks = locks.clone();
        async move { within(locks.acquire(waiting_request("a/1", LONG, LONG))).await }
    });

    files.rules(&file(&["b/"]));
    stream.until(|message| matches!(message, Kept::AtRisk(_))).await.unwrap();
    let watched = within(async {
        loop {
            if let Err(status) = watch.message().await {
                break Err::<(), _>(status);
            }
        }
    });
    assert_refused(watched.await, Code::PermissionDenied, "NOT_PERMITTED");
    assert_refused(waiting.await.unwrap(), Code::PermissionDenied, "NOT_PERMITTED");

    files.rules(&file(&["a/"]));
    stream.until(|message| matches!(message, Kept::Renewed(_))).await.unwrap();
    assert_eq!(holders(&mut locks, "a/1").await, 1);
}

#[tokio::test]
async fn a_session_answers_operations_that_no_rule_permits_and_goes_on() {
    let files = Files::new();
    files.rules(&with_operator(&(token("app", "app") + &rule("app", &["acquire"], &["a/"]))));
    let world = World::start(&files).await;
    let mut locks = world.locks(&Credentials::bearer("app"));
    let (asking, outbound) = mpsc::channel(8);
    let mut session = within(locks.session(ReceiverStream::new(outbound))).await.unwrap().into_inner();
    for (operation, name) in [(1, "b/1"), (2, "a/1")] {
        let handle = u32::try_from(operation).unwrap();
        let request = Some(acquire_request(name, LONG));
        let acquire = v1::SessionAcquire { request, handle, release_on_disconnect: false };
        asking.send(v1::SessionRequest { operation, message: Some(Ask::Acquire(acquire)) }).await.unwrap();
    }
    let mut answers = Vec::new();
    while answers.len() < 2 {
        let answer = within(session.message()).await.unwrap().unwrap();
        match answer.message.unwrap() {
            Answer::Error(error) => answers.push((answer.operation, Code::from(error.code))),
            Answer::Acquire(_) => answers.push((answer.operation, Code::Ok)),
            _ => {}
        }
    }
    answers.sort_by_key(|(operation, _)| *operation);
    assert_eq!(answers, [(1, Code::PermissionDenied), (2, Code::Ok)]);
}

#[tokio::test]
async fn an_acquire_that_waits_on_a_session_ends_when_no_rule_permits_it_any_more() {
    let files = Files::new();
    let file = |locks: &[&str]| with_operator(&(token("app", "app") + &rule("app", &["acquire"], locks)));
    files.rules(&file(&["a/", "b/"]));
    let world = World::start(&files).await;
    let mut locks = world.locks(&Credentials::bearer("app"));
    within(locks.acquire(acquire_request("a/1", LONG))).await.unwrap();
    let (asking, outbound) = mpsc::channel(8);
    let mut session = within(locks.session(ReceiverStream::new(outbound))).await.unwrap().into_inner();
    let request = Some(waiting_request("a/1", LONG, LONG));
    let acquire = v1::SessionAcquire { request, handle: 1, release_on_disconnect: false };
    asking.send(v1::SessionRequest { operation: 1, message: Some(Ask::Acquire(acquire)) }).await.unwrap();
    let mut next = async || within(session.message()).await.unwrap().unwrap().message.unwrap();
    while !matches!(next().await, Answer::Waiting(_)) {}
    files.rules(&file(&["b/"]));
    let refused = loop {
        if let Answer::Error(error) = next().await {
            break error;
        }
    };
    assert_eq!(Code::from(refused.code), Code::PermissionDenied);
}

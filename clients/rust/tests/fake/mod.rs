//! A scripted server: real sockets and the generated traits, with scripts instead of a store, for what no server does.
//! The server of the module `testing` has locks instead.
#![allow(dead_code, unreachable_pub)] // each test binary uses a part of this module
#![allow(clippy::unwrap_used)] // a test that cannot go on fails

mod service;
mod session;

use fencepost_client::raw::v1::session_response::Message as ServerMessage;
use fencepost_client::{Client, ClientBuilder, raw::v1};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::transport::server::Server;
use v1::acquire_response::Outcome;

/// The bound of every wait.
pub const BOUND: Duration = Duration::from_secs(20);

/// Long enough for a busy machine, short enough to wait for its end.
pub const TTL: Duration = Duration::from_secs(4);

pub fn wire(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}

/// The server's reaction to one call.
pub enum Do<T> {
    Answer(T),
    /// Answers after a delay.
    Late(Duration, T),
    Fail(Status),
    /// Never answers.
    Hang,
}

impl<T> Do<T> {
    async fn run(self) -> Result<T, Status> {
        match self {
            Self::Answer(answer) => Ok(answer),
            Self::Late(time, answer) => {
                tokio::time::sleep(time).await;
                Ok(answer)
            }
            Self::Fail(status) => Err(status),
            Self::Hang => std::future::pending().await,
        }
    }
}

type Script<Req, Res> = Box<dyn FnMut(&Req) -> Do<Res> + Send>;

/// One session as the server sees it.
#[derive(Default)]
pub struct Stream {
    /// Leases by handle.
    pub attached: BTreeMap<u32, v1::LeaseAttachment>,
    pub all_attached: Vec<v1::LeaseAttachment>,
    pub detached: Vec<u32>,
    pub answers: Vec<u64>,
    pub beats: u64,
    pub ended: bool,
    /// The numbers of operations, in order of arrival.
    pub operations: Vec<u64>,
    pub cancelled: Vec<u64>,
    /// Acquires without an answer: each is answered once.
    unanswered: HashSet<u64>,
    to_client: Option<mpsc::Sender<Result<v1::SessionResponse, Status>>>,
}

/// What the server has received, and its behaviour.
pub struct State {
    pub acquires: Vec<v1::AcquireRequest>,
    pub timeouts: Vec<Option<String>>,
    /// The `authorization` of each unary acquire, session and watch.
    pub authorizations: Vec<Option<String>>,
    /// The attempts whose calls or operations were dropped or cancelled before their answer.
    pub dropped: Vec<u32>,
    /// The lease ids of all grants.
    pub granted: Vec<String>,
    pub releases: Vec<v1::ReleaseRequest>,
    pub renews: Vec<v1::RenewRequest>,
    pub converts: Vec<v1::ConvertRequest>,
    pub describes: Vec<v1::DescribeRequest>,
    /// The streams of those who observe.
    pub observers: Vec<mpsc::Sender<Result<v1::ObserveResponse, Status>>>,
    /// The pages of those who wait.
    pub waiters: Vec<Vec<v1::LockWaiter>>,
    pub streams: Vec<Stream>,
    pub on_acquire: Script<v1::AcquireRequest, v1::AcquireResponse>,
    pub on_release: Script<v1::ReleaseRequest, v1::ReleaseResponse>,
    pub on_convert: Script<v1::ConvertRequest, v1::ConvertResponse>,
    pub on_describe: Script<v1::DescribeRequest, v1::DescribeResponse>,
    /// Whether it sends beats.
    pub beats: bool,
    /// Whether it answers attachments and beat answers with renewals.
    pub renews_leases: bool,
    /// The number of sessions, from the first one on, that stay open without an answer to anything.
    pub deaf: usize,
    /// Whether it refuses attachments because the stream is full.
    pub full: bool,
    /// Whether it answers attachments with the end of their lease.
    pub over: bool,
    /// Whether it ignores cancellations of acquires.
    pub ignores_cancel: bool,
    /// The error with which it refuses sessions.
    pub refuses: Option<Status>,
    /// The error with which it refuses those who observe, and how often it did.
    pub refuses_observers: Option<Status>,
    pub refused_observers: usize,
    /// The id of its store, which it tells each session.
    pub store_id: Option<String>,
    /// Delays the attachment of this lock until [`Fake::catch_up`].
    pub slow_for: Option<String>,
    late: Vec<(usize, v1::LeaseAttachment)>,
    /// The attachment that keeps a lease: its attempt number, stream and handle, by lease id.
    pub kept: HashMap<String, (u32, usize, u32)>,
}

#[derive(Clone)]
pub struct Fake {
    pub url: String,
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

/// The lease id of a lock name.
pub fn lease_id(name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    uuid::Uuid::from_u64_pair(hasher.finish(), 0).to_string()
}

pub fn lease(name: &str) -> v1::Lease {
    v1::Lease {
        lock_name: name.to_owned(),
        lease_id: lease_id(name),
        grant_id: "grant-1".to_owned(),
        fencing_token: 41,
        ttl: wire(TTL),
        mode: 0,
        slot: 0,
    }
}

/// Records whether the body's future was dropped before the lock was released.
pub struct Body {
    pub fake: Fake,
    pub dropped_before_release: Arc<AtomicBool>,
}

impl Drop for Body {
    fn drop(&mut self) {
        self.dropped_before_release.store(self.fake.state().releases.is_empty(), Ordering::SeqCst);
    }
}

pub fn acquired(name: &str) -> v1::AcquireResponse {
    v1::AcquireResponse {
        outcome: Outcome::Acquired.into(),
        lease: Some(lease(name)),
        previous_end: v1::LeaseEnd::Expired.into(),
        ..Default::default()
    }
}

pub fn refused(outcome: Outcome) -> v1::AcquireResponse {
    let holder = v1::LockHolder { holder: "somebody".to_owned(), fencing_token: 40, ..Default::default() };
    v1::AcquireResponse { outcome: outcome.into(), holders: vec![holder], waiters: 2, ..Default::default() }
}

pub fn released(end: v1::LeaseEnd) -> v1::ReleaseResponse {
    v1::ReleaseResponse { end: end.into(), successor_token: if end == v1::LeaseEnd::Released { 0 } else { 42 } }
}

pub fn client(fakes: &[&Fake]) -> Client {
    builder(fakes).build().unwrap()
}

pub fn builder(fakes: &[&Fake]) -> ClientBuilder {
    fakes.iter().fold(Client::builder(), |builder, fake| builder.server(&fake.url)).holder("a test")
}

impl Fake {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            acquires: Vec::new(),
            timeouts: Vec::new(),
            authorizations: Vec::new(),
            dropped: Vec::new(),
            granted: Vec::new(),
            releases: Vec::new(),
            renews: Vec::new(),
            converts: Vec::new(),
            describes: Vec::new(),
            observers: Vec::new(),
            waiters: vec![Vec::new()],
            streams: Vec::new(),
            on_acquire: Box::new(|request| Do::Answer(acquired(&request.lock_name))),
            on_release: Box::new(|_| Do::Answer(released(v1::LeaseEnd::Released))),
            on_convert: Box::new(|_| Do::Fail(Status::unimplemented("convert"))),
            on_describe: Box::new(|_| Do::Fail(Status::unimplemented("describe"))),
            beats: true,
            renews_leases: true,
            deaf: 0,
            full: false,
            over: false,
            ignores_cancel: false,
            refuses: None,
            refuses_observers: None,
            refused_observers: 0,
            store_id: None,
            slow_for: None,
            late: Vec::new(),
            kept: HashMap::new(),
        };
        let fake = Self { url, state: Arc::new(Mutex::new(state)), changed: watch::Sender::new(()) };
        let service = v1::lock_service_server::LockServiceServer::new(fake.clone());
        let service = service.max_decoding_message_size(64 * 1024);
        let server = Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        fake
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changed.send_replace(());
        result
    }

    /// Waits for a condition, at most `BOUND`.
    pub async fn until(&self, what: &str, condition: impl Fn(&State) -> bool) {
        let mut changes = self.changed.subscribe();
        let wait = async {
            while !condition(&self.state()) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(BOUND, wait).await.unwrap_or_else(|_| panic!("never happened: {what}"));
    }

    pub fn on_acquire(&self, script: impl FnMut(&v1::AcquireRequest) -> Do<v1::AcquireResponse> + Send + 'static) {
        self.state().on_acquire = Box::new(script);
    }

    pub fn on_release(&self, script: impl FnMut(&v1::ReleaseRequest) -> Do<v1::ReleaseResponse> + Send + 'static) {
        self.state().on_release = Box::new(script);
    }

    pub fn on_convert(&self, script: impl FnMut(&v1::ConvertRequest) -> Do<v1::ConvertResponse> + Send + 'static) {
        self.state().on_convert = Box::new(script);
    }

    pub fn on_describe(&self, script: impl FnMut(&v1::DescribeRequest) -> Do<v1::DescribeResponse> + Send + 'static) {
        self.state().on_describe = Box::new(script);
    }

    /// Sends a message about every attached lease to its client.
    pub fn tell_each(&self, message: impl Fn(u32) -> ServerMessage) {
        for stream in &self.state().streams {
            for handle in stream.attached.keys() {
                session::send(stream, 0, message(*handle));
            }
        }
    }

    /// Processes the delayed attachments.
    pub fn catch_up(&self) {
        self.update(|state| {
            state.slow_for = None;
            for (stream, lease) in std::mem::take(&mut state.late) {
                session::attached(state, stream, lease);
            }
        });
    }

    pub fn tell(&self, message: &ServerMessage) {
        for stream in &self.state().streams {
            session::send(stream, 0, message.clone());
        }
    }

    /// Sends a queue position to all operations.
    pub fn send_queue_positions(&self, ahead: u32) {
        for stream in &self.state().streams {
            for operation in &stream.operations {
                session::send(stream, *operation, ServerMessage::Waiting(v1::Waiting { ahead }));
            }
        }
    }

    /// Ends all open streams, like a stopping server.
    pub fn end_streams(&self) {
        for stream in &mut self.state().streams {
            if let Some(to_client) = stream.to_client.take() {
                let _ = to_client.try_send(Err(Status::unavailable("stopping")));
            }
        }
    }
}

/// Records that a call was dropped before its answer.
struct Unanswered {
    fake: Fake,
    attempt: Option<u32>,
}

impl Unanswered {
    fn answered(&mut self) {
        self.attempt = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt {
            self.fake.update(|state| state.dropped.push(attempt));
        }
    }
}

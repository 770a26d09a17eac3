//! Requests: any method of the API, with any body, to a complete server in this process.

use crate::body::RequestBody;
use fencepost::testing::{
    api::{Api, Services, StoreIdentity},
    clock::ProcessClock,
    config::Config,
    locks::{Hub, Locks},
    store::MemoryStore,
    telemetry::traces::Traces,
};
use http_body_util::BodyExt;
use std::{cell::RefCell, sync::Arc, time::Duration};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{Code, body::Body};
use tower::ServiceExt;

/// Every method; the first byte of the input picks one.
pub const METHODS: [&str; 13] = [
    "/fencepost.v1.LockService/Acquire",
    "/fencepost.v1.LockService/Release",
    "/fencepost.v1.LockService/Renew",
    "/fencepost.v1.LockService/KeepAlive",
    "/fencepost.v1.LockService/Session",
    "/fencepost.v1.LockService/Get",
    "/fencepost.v1.LockService/List",
    "/fencepost.v1.LockService/Watch",
    "/fencepost.v1.LockService/CheckToken",
    "/fencepost.v1.AdminService/ForceRelease",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/fencepost.v1.AdminService/Drain",
];
/// Drain ends the server for later requests, so the first byte does not pick it.
const SELECTABLE: usize = METHODS.len() - 1;

/// How long to wait for an answer. Time is simulated: waiting is free.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);
/// The number of frames of an answer to read: a stream is endless.
const FRAMES_MAX: usize = 64;

struct Server {
    runtime: Runtime,
    services: Services<MemoryStore>,
}

impl Server {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be made");
        let config = Config::default();
        let services = runtime.block_on(async {
            let hub = Arc::new(Hub::new());
            let store = Arc::new(MemoryStore::new(Arc::new(ProcessClock::start()), &config.limits, hub.clone()));
            let locks = Arc::new(Locks::new(store.clone(), hub, config.limits.clone()));
            tokio::spawn(async move { store.run_expiry().await });
            let (metrics, traces) = (Arc::default(), Traces::default());
            let (_, health) = tonic_health::server::health_reporter();
            let identity = StoreIdentity::new("memory", || None);
            let api = Api::new(&locks, identity, config.drain_timeout, &metrics, &traces);
            fencepost::testing::api::services(&api, health, true).expect("the services have descriptors")
        });
        Self { runtime, services }
    }

    fn call(&self, method: &str, body: RequestBody) -> Option<Code> {
        let request = http::Request::post(format!("http://localhost{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Body::new(body))
            .expect("it is a request");
        self.runtime.block_on(async {
            let response = timeout(ANSWER_TIMEOUT, self.services.clone().oneshot(request)).await.ok()?;
            let response = response.unwrap_or_else(|never| match never {});
            let (head, mut body) = response.into_parts();
            let mut code = status(&head.headers);
            for _ in 0..FRAMES_MAX {
                let Ok(Some(part)) = timeout(ANSWER_TIMEOUT, body.frame()).await else { break };
                let part = part.expect("an answer is whole");
                code = code.or(part.trailers_ref().and_then(status));
            }
            code
        })
    }
}

fn status(headers: &http::HeaderMap) -> Option<Code> {
    Some(Code::from_bytes(headers.get("grpc-status")?.as_bytes()))
}

/// Sends a request of any method: no input may make the server panic, or answer that it is broken.
pub fn request(bytes: &[u8]) -> Option<Code> {
    thread_local! {
        // One server for many requests: some paths need locks that are held and waited for.
        static SERVER: RefCell<(Server, usize)> = RefCell::new((Server::start(), 0));
    }
    const REQUESTS_PER_SERVER: usize = 1_000;
    let (first, message) = bytes.split_first()?;
    let method = METHODS[usize::from(*first) % SELECTABLE];
    SERVER.with_borrow_mut(|(server, requests)| {
        *requests += 1;
        if *requests > REQUESTS_PER_SERVER {
            (*server, *requests) = (Server::start(), 0);
        }
        let body = if is_stream(method) { RequestBody::streaming(message) } else { RequestBody::unary(message) };
        let decodes = body.messages().all(|message| decodes_as(method, message));
        let code = server.call(method, body);
        let broken = matches!(code, Some(Code::Unknown | Code::DataLoss));
        // tonic answers INTERNAL to bytes that do not decode: the only permitted case.
        let undecodable = code == Some(Code::Internal);
        assert!(!broken, "{method} answered {code:?}");
        assert!(!undecodable || !decodes, "{method} answered {code:?} to a message");
        code
    })
}

fn is_stream(method: &str) -> bool {
    method.ends_with("/KeepAlive") || method.ends_with("/Session")
}

fn decodes_as(method: &str, bytes: &[u8]) -> bool {
    use fencepost_proto::v1;
    use prost::Message;
    fn of<M: Message + Default>(bytes: &[u8]) -> bool {
        M::decode(bytes).is_ok()
    }
    match method.rsplit('/').next().unwrap_or_default() {
        "Acquire" => of::<v1::AcquireRequest>(bytes),
        "Release" => of::<v1::ReleaseRequest>(bytes),
        "Renew" => of::<v1::RenewRequest>(bytes),
        "KeepAlive" => of::<v1::KeepAliveRequest>(bytes),
        "Session" => of::<v1::SessionRequest>(bytes),
        "Get" => of::<v1::GetRequest>(bytes),
        "List" => of::<v1::ListRequest>(bytes),
        "Watch" => of::<v1::WatchRequest>(bytes),
        "CheckToken" => of::<v1::CheckTokenRequest>(bytes),
        "ForceRelease" => of::<v1::ForceReleaseRequest>(bytes),
        _ => false,
    }
}

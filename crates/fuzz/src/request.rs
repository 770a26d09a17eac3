//! Requests: any method of the API, with any body, to a whole server in this process.

use crate::talk::Talk;
use fencepost::{
    clock::ProcessClock,
    config::Config,
    locks::{Hub, Locks},
    store::MemoryStore,
};
use http_body_util::BodyExt;
use std::{cell::RefCell, sync::Arc, time::Duration};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{Code, body::Body, service::Routes};
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
/// Drain ends the server for all that come after, so it is left out of what the first byte picks.
const PICKED: usize = METHODS.len() - 1;

/// For how long an answer is listened to. Time is not real: waiting costs nothing.
const PATIENCE: Duration = Duration::from_secs(2 * 60 * 60);
/// Parts of an answer that are read: a stream has no end.
const PARTS_MAX: usize = 64;

struct Server {
    runtime: Runtime,
    routes: Routes,
}

impl Server {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be made");
        let config = Config::default();
        let routes = runtime.block_on(async {
            let hub = Arc::new(Hub::new());
            let store = Arc::new(MemoryStore::new(Arc::new(ProcessClock::start()), &config.limits, hub.clone()));
            let locks = Arc::new(Locks::new(store.clone(), hub, config.limits.clone()));
            tokio::spawn(async move { store.run_expiry().await });
            fencepost::api::routes(&locks, config.drain_timeout).expect("the services describe themselves")
        });
        Self { runtime, routes }
    }

    fn call(&self, method: &str, talk: Talk) -> Option<Code> {
        let request = http::Request::post(format!("http://localhost{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Body::new(talk))
            .expect("it is a request");
        self.runtime.block_on(async {
            let response = timeout(PATIENCE, self.routes.clone().oneshot(request)).await.ok()?;
            let response = response.unwrap_or_else(|never| match never {});
            let (head, mut body) = response.into_parts();
            let mut code = status(&head.headers);
            for _ in 0..PARTS_MAX {
                let Ok(Some(part)) = timeout(PATIENCE, body.frame()).await else { break };
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

/// A request of any method: nothing that a client can send makes the server panic, or blame itself.
pub fn request(bytes: &[u8]) -> Option<Code> {
    thread_local! {
        // One server for many requests: locks that are held and waited for are what some paths need.
        static SERVER: RefCell<(Server, usize)> = RefCell::new((Server::start(), 0));
    }
    const REQUESTS_PER_SERVER: usize = 1_000;
    let (first, message) = bytes.split_first()?;
    let method = METHODS[usize::from(*first) % PICKED];
    SERVER.with_borrow_mut(|(server, asked)| {
        *asked += 1;
        if *asked > REQUESTS_PER_SERVER {
            (*server, *asked) = (Server::start(), 0);
        }
        let talk = if is_stream(method) { Talk::of_many(message) } else { Talk::of_one(message) };
        let are_messages = talk.messages().all(|message| is_message(method, message));
        let code = server.call(method, talk);
        let blamed = matches!(code, Some(Code::Unknown | Code::DataLoss));
        // tonic answers INTERNAL to bytes that are no message of the type: the only case in which it may.
        let undecodable = code == Some(Code::Internal);
        assert!(!blamed, "{method} answered {code:?}");
        assert!(!undecodable || !are_messages, "{method} answered {code:?} to a message");
        code
    })
}

fn is_stream(method: &str) -> bool {
    method.ends_with("/KeepAlive") || method.ends_with("/Session")
}

fn is_message(method: &str, bytes: &[u8]) -> bool {
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
